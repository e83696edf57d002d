"""Request fields specific to this family."""

from pydantic import ConfigDict, Field

from antiphon.contracts.well_formed import StrictModel
from antiphon.families.kit.reference import ContinuedRecording, Reference
from antiphon.families.voxcpm2.config import (
    DEFAULT_GUIDANCE,
    DEFAULT_STEPS,
    MAX_GUIDANCE,
    MAX_STEPS,
    MIN_GUIDANCE,
    MIN_STEPS,
)

FAMILY_NAME = "voxcpm2"
_MAX_TEXT_CHARACTERS = 2000


class VoxCPM2Options(StrictModel):
    """Request options beyond the fields shared by all families."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    ref_audio: Reference | None = Field(None, description="A recording of the voice to speak with.")
    ref_text: str | None = Field(
        None,
        max_length=_MAX_TEXT_CHARACTERS,
        description="What 'ref_audio' says: then it is continued too, which is closer to it.",
    )
    prompt_audio: ContinuedRecording | None = Field(
        None, description="A recording that is continued; needs 'prompt_text'."
    )
    prompt_text: str | None = Field(
        None, max_length=_MAX_TEXT_CHARACTERS, description="What 'prompt_audio' says."
    )
    cfg_value: float = Field(
        DEFAULT_GUIDANCE,
        ge=MIN_GUIDANCE,
        le=MAX_GUIDANCE,
        description="How closely speech follows text and voice.",
    )
    inference_timesteps: int = Field(
        DEFAULT_STEPS,
        ge=MIN_STEPS,
        le=MAX_STEPS,
        description="Steps from noise to speech; fewer are faster, more are finer.",
    )
