"""What ElevenLabs' clients send, as far as it means something here."""

import re
from typing import Self

from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from antiphon.api.schemas.speech import Text
from antiphon.api.wire_format import WireFormat
from antiphon.audio.encode import AudioFormat
from antiphon.errors import InvalidRequestError
from antiphon.pipeline.speech import MAX_SAMPLE_RATE_HZ, MAX_SPEED, MIN_SAMPLE_RATE_HZ, MIN_SPEED

_FORMAT = re.compile(r"(mp3|pcm|wav|opus|ulaw|alaw)_(\d{4,5})(_\d+)?")
DEFAULT_FORMAT = "mp3_44100_128"


class VoiceSettings(BaseModel):
    """Of all settings of a voice, the one that every model has."""

    model_config = ConfigDict(frozen=True)

    speed: float | None = Field(None, ge=MIN_SPEED, le=MAX_SPEED, allow_inf_nan=False)


class SpeechQuery(BaseModel):
    """What the URL says."""

    model_config = ConfigDict(frozen=True)

    model_id: Text | None = None
    output_format: Text = DEFAULT_FORMAT
    language_code: Text | None = None
    seed: int | None = Field(None, ge=0, le=2**32 - 1)

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


class SpeechBody(BaseModel):
    """A text and how to speak it; members that mean nothing here are ignored."""

    model_config = ConfigDict(frozen=True)

    text: Text
    model_id: Text | None = None
    language_code: Text | None = None
    voice_settings: VoiceSettings | None = None
    seed: int | None = Field(None, ge=0, le=2**32 - 1)

    def over(self, query: SpeechQuery) -> SpeechQuery:
        """Return the query with what the body says besides."""
        names = ("model_id", "language_code", "seed")
        given = self.model_dump(include=set(names), exclude_none=True)
        return query.model_copy(update=given)


class StreamMessage(BaseModel):
    """A message of a stream; each member may be in any."""

    model_config = ConfigDict(frozen=True)

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
