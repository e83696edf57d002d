"""Request fields that only this family knows."""

from pydantic import ConfigDict, Field

from antiphon.contracts.well_formed import StrictModel
from antiphon.families.kit.reference import Reference

FAMILY_NAME = "fish_speech"
MAX_REFERENCE_S = 60
"""Of a recording: a third of what a prompt has room for."""


class FishSpeechOptions(StrictModel):
    """What a request may say to this family beyond the fields that all families share."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    ref_audio: Reference | None = Field(None, description="The recording to imitate.")
    ref_text: str | None = Field(None, description="What the recording says; needed with it.")
