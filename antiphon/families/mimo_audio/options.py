"""Request fields specific to this family."""

from pydantic import ConfigDict, Field

from antiphon.contracts.sampling_ranges import MAX_FACTOR, MAX_TOP_K
from antiphon.contracts.well_formed import StrictModel
from antiphon.families.kit.reference import Reference

FAMILY_NAME = "mimo_audio"


class MiMoAudioOptions(StrictModel):
    """Request options beyond the fields shared by all families."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    ref_audio: Reference | None = Field(
        None, description="A recording of the voice to speak with; what it says is not needed."
    )
    local_temperature: float | None = Field(
        None,
        ge=0,
        le=MAX_FACTOR,
        description="Of the audio's codes; 0 takes the likeliest. Default 0.9.",
    )
    local_top_k: int | None = Field(
        None, ge=0, le=MAX_TOP_K, description="Of the audio's codes; 0, the default, keeps all."
    )
    local_top_p: float | None = Field(
        None, gt=0, le=1, description="Of the audio's codes. Default 0.95."
    )
