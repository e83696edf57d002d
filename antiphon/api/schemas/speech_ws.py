"""The messages of ``/v1/audio/speech/stream``."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from antiphon.api.errors import M, validated
from antiphon.api.schemas.field_rules import KnownMembers, as_served, field_classes, unknown_field
from antiphon.api.schemas.kokoro import KokoroMembers
from antiphon.api.schemas.speech import SpeechBody, Text
from antiphon.contracts.family import Task
from antiphon.errors import InvalidRequestError
from antiphon.formats import AudioFormat
from antiphon.pipeline.speech.segmenter import Granularity


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
    text_input_mode: Literal["buffered", "commitment"] | None = Field(
        None, description="Both mean the same: text is spoken while it arrives."
    )
    split_granularity: Granularity = Field(
        "none", description="What is one file: an utterance, a sentence of it, or a clause."
    )

    @model_validator(mode="after")
    def _checked(self) -> Self:
        return self


class NoMembers(KnownMembers):
    """A message without members but its type."""


class InputText(KnownMembers):
    """More text of the current utterance."""

    text: Text


def unknown_option(name: str, task: Task) -> InvalidRequestError:
    """Return the error for a member that neither a session nor the model's family has."""
    further = (*KokoroMembers.model_fields, *task.options.model_fields)
    return unknown_field(name, {**field_classes(SessionConfig), **as_served(further)})


def unknown_message(type: Any, *allowed: str) -> InvalidRequestError:
    """Return the error for a message of a type that its conversation does not have."""
    return InvalidRequestError(
        f"Unknown message type: {ascii(type)[:80]}. Allowed: {', '.join(allowed)}.", param="type"
    )


def parsed(message: Mapping[str, Any], model: type[M]) -> M:
    """Read a message; raises InvalidRequestError naming the field and what is allowed."""
    members = {name: value for name, value in message.items() if name != "type"}
    return validated(model, members, "message")
