"""Base class of the sections of settings."""

from pydantic import BaseModel, ConfigDict


class SettingsSection(BaseModel):
    """Base of all sections: frozen, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
