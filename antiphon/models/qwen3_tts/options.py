"""Request fields that only this family knows."""

import json
import math
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, PlainValidator
from pydantic_core import PydanticCustomError

from antiphon.models.prepared import PreparedVoice

FAMILY_NAME = "qwen3_tts"
MAX_EMBEDDING_SIZE = 4096
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


def _embedding(value: Any) -> tuple[float, ...]:
    """Accept numbers, and JSON, which is how forms bring them."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    is_long_enough = isinstance(value, list | tuple) and 1 <= len(value) <= MAX_EMBEDDING_SIZE
    if not is_long_enough or not all(type(each) in (int, float) for each in value):
        raise PydanticCustomError(
            "embedding", f"it must be a non-empty list of at most {MAX_EMBEDDING_SIZE} numbers"
        )
    if not all(abs(each) <= _MAX_FLOAT32 for each in value):  # NaN is not
        raise PydanticCustomError("embedding", "all its numbers must be finite")
    return tuple(map(float, value))


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


Embedding = Annotated[tuple[float, ...], PlainValidator(_embedding)]
Reference = Annotated[NDArray[np.float32] | PreparedVoice, PlainValidator(_reference)]
"""Samples of a recording, ``[num_samples]`` at the codec's rate; or a voice prepared from one."""


class Qwen3TTSOptions(BaseModel):
    """What a request may say to this family beyond the fields that all families share."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    task_type: Literal["CustomVoice", "VoiceDesign", "Base"] | None = None
    ref_audio: Reference | None = None
    ref_text: str | None = None
    x_vector_only_mode: bool | None = Field(
        None, description="Clone with the speaker vector alone, without the recording's codes."
    )
    speaker_embedding: Embedding | None = None
    non_streaming_mode: bool | None = Field(
        None,
        description="Let the model read all text before it speaks; default: not for cloned voices.",
    )
    initial_codec_chunk_frames: int | None = Field(
        None, ge=0, description="Frames in the first chunk; 0 leaves it to the server."
    )
    subtalker_temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    subtalker_top_k: int | None = Field(None, ge=0)
    subtalker_top_p: float | None = Field(None, gt=0, le=1)


BASE_ONLY = ("ref_audio", "ref_text", "x_vector_only_mode", "speaker_embedding")
