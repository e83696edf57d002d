"""Request fields that only this family knows."""

import math
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from antiphon.models.prepared import PreparedVoice
from antiphon.models.voxcpm2.config import (
    DEFAULT_GUIDANCE,
    DEFAULT_STEPS,
    MAX_GUIDANCE,
    MAX_STEPS,
    MIN_GUIDANCE,
    MIN_STEPS,
)

FAMILY_NAME = "voxcpm2"
_MAX_TEXT_CHARACTERS = 2000


def _recording(value: Any) -> NDArray[np.float32]:
    is_recording = isinstance(value, np.ndarray) and value.dtype == np.float32 and value.ndim == 1
    if not is_recording or not len(value) or not math.isfinite(np.abs(value).max()):
        raise PydanticCustomError(
            "recording", "it must be finite samples: float32, mono, not empty"
        )
    recording: NDArray[np.float32] = value
    return recording


def _reference(value: Any) -> NDArray[np.float32] | PreparedVoice:
    return value if isinstance(value, PreparedVoice) else _recording(value)


# On the wire it is where the recording is: requests bring no samples.
_ADDRESS = WithJsonSchema({"type": "string", "minLength": 1})
VoiceReference = Annotated[
    NDArray[np.float32] | PreparedVoice, PlainValidator(_reference), _ADDRESS
]
ContinuedRecording = Annotated[NDArray[np.float32], PlainValidator(_recording), _ADDRESS]


class VoxCPM2Options(BaseModel):
    """What a request may say to this family beyond the fields that all families share."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    ref_audio: VoiceReference | None = Field(
        None, description="A recording of the voice to speak with."
    )
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
        allow_inf_nan=False,
        description="How closely speech follows text and voice.",
    )
    inference_timesteps: int = Field(
        DEFAULT_STEPS,
        ge=MIN_STEPS,
        le=MAX_STEPS,
        description="Steps from noise to speech; fewer are faster, more are finer.",
    )
