"""What ElevenLabs' clients send, as far as it means something here."""

import re
from typing import Any, Literal, Self

from pydantic import (
    AliasChoices,
    Field,
    ValidationInfo,
    field_validator,
)

from antiphon.api.schemas.speech import Speed, Text
from antiphon.api.wire_format import WireFormat
from antiphon.audio.encode import AudioFormat
from antiphon.errors import InvalidRequestError
from antiphon.models.well_formed import StrictModel
from antiphon.pipeline.speech.service import MAX_SAMPLE_RATE_HZ, MIN_SAMPLE_RATE_HZ

_FORMAT = re.compile(r"(mp3|pcm|wav|opus|ulaw|alaw)_(\d{4,5})(_\d+)?")
DEFAULT_FORMAT = "mp3_44100_128"
MAX_DIALOGUE_INPUTS = 200


class VoiceSettings(StrictModel):
    """Of all settings of a voice, the one that every model has."""

    speed: Speed | None = None


class _Parameters(StrictModel):
    """What both URLs and bodies may say."""

    model_id: Text | None = None
    language_code: Text | None = None
    seed: int | None = Field(None, ge=0, le=2**32 - 1)
    apply_text_normalization: Literal["auto", "on", "off"] | None = Field(
        None, description="on: numbers are written out in English words first."
    )


class SpeechQuery(_Parameters):
    """What the URL says."""

    output_format: Text = DEFAULT_FORMAT

    def format(self) -> WireFormat:
        """Return how the audio is coded; a bit rate is ours to choose.

        Raises:
            InvalidRequestError: there is no such format.
        """
        found = _FORMAT.fullmatch(self.output_format)
        rate_hz = int(found[2]) if found else 0
        if found is None or not MIN_SAMPLE_RATE_HZ <= rate_hz <= MAX_SAMPLE_RATE_HZ:
            raise InvalidRequestError(
                f"Invalid 'output_format': {ascii(self.output_format)[:60]}. It must be like"
                " mp3_44100_128, pcm_24000, wav_24000, opus_48000_64, ulaw_8000 or alaw_8000.",
                param="output_format",
            )
        if found[1] in ("ulaw", "alaw"):
            return (WireFormat.mulaw if found[1] == "ulaw" else WireFormat.alaw)(rate_hz)
        return WireFormat.of(AudioFormat(found[1]), rate_hz)


class _TextBody(_Parameters):
    """What speech and dialogues have in common; members that mean nothing here are ignored."""

    pronunciation_dictionary_locators: list[Any] | None = Field(
        None, description="Refused: there are no dictionaries here."
    )
    audio_effects: dict[str, Any] | None = Field(None, description="Refused.")

    @field_validator("pronunciation_dictionary_locators", "audio_effects")
    @classmethod
    def _not_here(cls, value: Any, info: ValidationInfo) -> Any:
        if value:
            raise InvalidRequestError(
                f"Invalid '{info.field_name}': there is no such thing on this server.",
                param=info.field_name,
            )
        return value

    def over(self, query: SpeechQuery) -> SpeechQuery:
        """Return the query with what the body says besides."""
        names = ("model_id", "language_code", "seed")
        given = self.model_dump(include=set(names), exclude_none=True)
        return query.model_copy(update=given)

    @property
    def normalize(self) -> bool:
        """Whether numbers are written out first."""
        return self.apply_text_normalization == "on"


class ElevenlabsSpeechBody(_TextBody):
    """A text and how to speak it."""

    text: Text
    voice_settings: VoiceSettings | None = None

    @property
    def speed(self) -> float:
        """The speed that it asks for."""
        return (self.voice_settings.speed if self.voice_settings else None) or 1.0


class DialogueInput(StrictModel):
    """What one speaker says."""

    text: Text
    voice_id: Text


class DialogueBody(_TextBody):
    """Texts in the order in which they are spoken."""

    inputs: list[DialogueInput] = Field(min_length=1, max_length=MAX_DIALOGUE_INPUTS)

    @property
    def text(self) -> str:
        """All that is said."""
        return " ".join(each.text for each in self.inputs)


class StreamMessage(StrictModel):
    """A message of a stream; each member may be in any."""

    text: Text | None = None
    context_id: Text | None = Field(
        None, validation_alias=AliasChoices("context_id", "contextId"), max_length=256
    )
    flush: bool | None = None
    close_context: bool | None = None
    close_socket: bool | None = None
    voice_settings: VoiceSettings | None = None

    @property
    def speed(self) -> float | None:
        """The speed that it asks for."""
        return self.voice_settings.speed if self.voice_settings else None

    def checked(self) -> Self:
        """Return the message, which must say something.

        Raises:
            InvalidRequestError: it says nothing.
        """
        if self.text is None and not (self.flush or self.close_context or self.close_socket):
            raise InvalidRequestError(
                "Missing required parameter: 'text'.",
                param="text",
                code="missing_required_parameter",
            )
        return self
