"""Request fields specific to this family."""

from pydantic import Field

from antiphon.contracts.well_formed import StrictOptions
from antiphon.families.kit.cloned_voices import Reference

FAMILY_NAME = "fish_speech"
MAX_REFERENCE_S = 60
"""Maximum length of reference audio: a third of the positions of a prompt."""


class FishSpeechOptions(StrictOptions):
    """Request options beyond the fields shared by all families."""

    ref_audio: Reference | None = Field(None, description="The recording to imitate.")
    ref_text: str | None = Field(None, description="Transcript of the recording; needed with it.")
