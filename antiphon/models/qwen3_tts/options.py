"""Request fields that only this family knows, and a voice made from a recording."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    StrictBytes,
    ValidationError,
)

from antiphon.errors import InvalidRequestError

MAX_EMBEDDING_SIZE = 4096


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PreparedVoice:
    """A recording as the model hears it: prepared once, spoken with often.

    Attributes:
        speaker: speaker vector, f32, ``[hidden_size]``.
        codes: the recording's frames, int64, ``[num_frames, num_groups]``; ``None`` if only the
            vector is known.
        text: what the recording says, if that is known.
    """

    speaker: NDArray[np.float32]
    codes: NDArray[np.int64] | None = None
    text: str | None = None


def _finite(values: tuple[float, ...]) -> tuple[float, ...]:
    if not all(math.isfinite(value) for value in values):
        raise ValueError("all its numbers must be finite")
    return values


Embedding = Annotated[
    tuple[float, ...],
    Field(min_length=1, max_length=MAX_EMBEDDING_SIZE),
    AfterValidator(_finite),
]


class Qwen3TTSOptions(BaseModel):
    """What a request may say to this family beyond the fields that all families share.

    ``ref_audio`` is an encoded recording (WAV, FLAC, MP3 ...) or a voice prepared from one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    task_type: Literal["CustomVoice", "VoiceDesign", "Base"] | None = None
    ref_audio: StrictBytes | InstanceOf[PreparedVoice] | None = None
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


def read_options(values: Mapping[str, Any]) -> Qwen3TTSOptions:
    """Validate a request's family fields.

    Raises:
        InvalidRequestError: one is unknown or wrong; ``param`` is its name.
    """
    try:
        return Qwen3TTSOptions.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        param = str(first["loc"][0])
        if first["type"] == "extra_forbidden":
            known = ", ".join(Qwen3TTSOptions.model_fields)
            message = f"Unknown parameter: '{param}'. This model knows: {known}."
        else:
            message = f"Invalid '{param}': {first['msg']}."
        raise InvalidRequestError(message, param=param) from error
