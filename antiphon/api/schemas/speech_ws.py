"""The messages of ``/v1/audio/speech/stream``."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from antiphon.api.schemas.speech import SpeechBody, Text
from antiphon.api.validation import M, validated
from antiphon.audio.encode import AudioFormat


class SessionConfig(SpeechBody):
    """How to speak all that follows: the fields of ``POST /v1/audio/speech``, and three more."""

    input: Text = Field("", exclude=True)
    response_format: AudioFormat = Field(AudioFormat.WAV, description="The format of each file.")
    stream_audio: bool = Field(
        False, description="Send audio as it is made, rather than each file at once."
    )
    word_timestamps: bool = Field(
        False, description="Send audio as JSON, with the times of its words, or null."
    )
    split_granularity: Literal["none", "sentence", "clause"] = Field(
        "none", description="What is one file: an utterance, a sentence of it, or a clause."
    )

    @model_validator(mode="after")
    def _checked(self) -> Self:
        return self


class InputText(BaseModel):
    """More text of the current utterance."""

    model_config = ConfigDict(frozen=True)

    text: Text


def parsed(message: Mapping[str, Any], model: type[M]) -> M:
    """Read a message; raises InvalidRequestError naming the field and what is allowed."""
    members = {name: value for name, value in message.items() if name != "type"}
    return validated(model, members, "message")
