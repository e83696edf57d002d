"""Request fields specific to this family, and default sampling: the official values for speech."""

from typing import Annotated

from pydantic import Field

from antiphon.contracts.sampling import TEMPERATURE, TOP_K, TOP_P
from antiphon.contracts.types import Sampling
from antiphon.contracts.well_formed import StrictOptions
from antiphon.families.kit.cloned_voices import Reference

FAMILY_NAME = "mimo_audio"
TEXT = Sampling(temperature=0.6, top_k=0, top_p=1.0, repetition_penalty=1.0, max_frames=1500)
CODES = Sampling(temperature=0.9, top_k=0, top_p=0.95, repetition_penalty=1.0)


class MiMoAudioOptions(StrictOptions):
    """Request options beyond the fields shared by all families."""

    ref_audio: Reference | None = Field(
        None, description="A recording of the voice to speak with; its transcript is not needed."
    )
    local_temperature: Annotated[float, TEMPERATURE.computable] | None = Field(
        None, description="Of the audio's codes; 0 takes the likeliest. Default 0.9."
    )
    local_top_k: Annotated[int, TOP_K.range] | None = Field(
        None, description="Of the audio's codes; 0, the default, keeps all."
    )
    local_top_p: Annotated[float, TOP_P.range] | None = Field(
        None, description="Of the audio's codes. Default 0.95."
    )


def code_sampling(asked: Sampling, options: MiMoAudioOptions) -> Sampling:
    """Return complete sampling of codes; a greedy request has greedy codes."""
    temperature = options.local_temperature
    if temperature is None and asked.temperature == 0:
        temperature = 0.0
    given = Sampling(temperature=temperature, top_k=options.local_top_k, top_p=options.local_top_p)
    return given.with_defaults(CODES)
