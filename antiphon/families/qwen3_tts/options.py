"""Request fields of this family."""

import json
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from antiphon.contracts.sampling import MAX_INT32, TEMPERATURE, TOP_K, TOP_P, Range
from antiphon.contracts.well_formed import StrictOptions
from antiphon.families.kit.cloned_voices import Reference

FAMILY_NAME = "qwen3_tts"
MAX_EMBEDDING_SIZE = 4096
_MAX_FLOAT32 = float(np.finfo(np.float32).max)


def _embedding(value: Any) -> tuple[float, ...]:
    """Accept numbers, or JSON, as in forms."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            value = None
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], list):
        value = value[0]  # vLLM-Omni takes several, and one in this form too
    is_long_enough = isinstance(value, list | tuple) and 1 <= len(value) <= MAX_EMBEDDING_SIZE
    if not is_long_enough or not all(type(each) in (int, float) for each in value):
        raise PydanticCustomError(
            "embedding", f"it must be a non-empty list of at most {MAX_EMBEDDING_SIZE} numbers"
        )
    if not all(abs(each) <= _MAX_FLOAT32 for each in value):  # false for NaN
        raise PydanticCustomError("embedding", "all its numbers must be finite")
    return tuple(map(float, value))


Embedding = Annotated[
    tuple[float, ...],
    PlainValidator(_embedding),
    WithJsonSchema(
        {
            "type": "array",
            "items": {"type": "number"},
            "minItems": 1,
            "maxItems": MAX_EMBEDDING_SIZE,
        }
    ),
]


class Qwen3TTSOptions(StrictOptions):
    """Fields of a request that this family adds to those that all families share."""

    task_type: Literal["CustomVoice", "VoiceDesign", "Base"] | None = Field(
        None, description="What the client expects; refused if the checkpoint's task is another."
    )
    ref_audio: Reference | None = Field(None, description="The recording to imitate.")
    ref_text: str | None = Field(None, description="Transcript of the recording.")
    x_vector_only_mode: bool | None = Field(
        None, description="Clone with the speaker vector alone, without the recording's codes."
    )
    speaker_embedding: Embedding | None = Field(
        None, description="A speaker vector instead of a recording."
    )
    non_streaming_mode: bool | None = Field(
        None,
        description="Let the model read all text before it speaks; default: not for cloned voices.",
    )
    initial_codec_chunk_frames: Annotated[int, Range(0, MAX_INT32)] | None = Field(
        None, description="Frames in the first chunk; 0 leaves it to the server."
    )
    subtalker_dosample: bool | None = Field(
        None, description="false: take the likeliest codes inside a frame."
    )
    subtalker_temperature: Annotated[float, TEMPERATURE.computable] | None = Field(
        None, description="Sampling of the codes inside a frame; 0 takes the likeliest."
    )
    subtalker_top_k: Annotated[int, TOP_K.range] | None = Field(
        None, description="The same; 0 keeps all."
    )
    subtalker_top_p: Annotated[float, TOP_P.range] | None = Field(None, description="The same.")


BASE_ONLY = ("ref_audio", "ref_text", "x_vector_only_mode", "speaker_embedding")
