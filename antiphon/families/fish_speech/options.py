"""Request fields specific to this family."""

from pydantic import ConfigDict, Field

from antiphon.contracts.well_formed import StrictModel
from antiphon.families.kit.cloned_voices import Reference

FAMILY_NAME = "fish_speech"
MAX_REFERENCE_S = 60
"""Maximum length of reference audio: a third of the positions of a prompt."""


class FishSpeechOptions(StrictModel):
    """Request options beyond the fields shared by all families."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    ref_audio: Reference | None = Field(None, description="The recording to imitate.")
    ref_text: str | None = Field(None, description="Transcript of the recording; needed with it.")
