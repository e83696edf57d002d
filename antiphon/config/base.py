"""What all sections of the settings share."""

from pydantic import BaseModel, ConfigDict


class SettingsSection(BaseModel):
    """Base of all sections: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
