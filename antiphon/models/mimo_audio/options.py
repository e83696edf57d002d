"""Request fields that only this family knows."""

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from antiphon.models.prepared import PreparedVoice

FAMILY_NAME = "mimo_audio"
MAX_FACTOR = 100.0
MAX_TOP_K = 2**31 - 1


def _reference(value: Any) -> NDArray[np.float32] | PreparedVoice:
    if isinstance(value, PreparedVoice):
        return value
    is_recording = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1
    if not is_recording or not len(value) or not math.isfinite(np.abs(value).max()):
        raise PydanticCustomError(
            "recording", "it must be a prepared voice, or finite samples: float32, mono, not empty"
        )
    recording: NDArray[np.float32] = value
    return recording


HeardVoice = Annotated[
    NDArray[np.float32] | PreparedVoice,
    PlainValidator(_reference),
    # On the wire it is where the recording is: requests bring no samples.
    WithJsonSchema({"type": "string", "minLength": 1}),
]


class MiMoAudioOptions(BaseModel):
    """What a request may say to this family beyond the fields that all families share."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    ref_audio: HeardVoice | None = Field(
        None, description="A recording of the voice to speak with; what it says is not needed."
    )
    local_temperature: float | None = Field(
        None,
        ge=0,
        le=MAX_FACTOR,
        allow_inf_nan=False,
        description="Of the audio's codes; 0 takes the likeliest. Default 0.9.",
    )
    local_top_k: int | None = Field(
        None, ge=0, le=MAX_TOP_K, description="Of the audio's codes; 0, the default, keeps all."
    )
    local_top_p: float | None = Field(
        None, gt=0, le=1, description="Of the audio's codes. Default 0.95."
    )
