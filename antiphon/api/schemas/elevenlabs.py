"""Requests of ElevenLabs' clients."""

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, ConfigDict, Field

from antiphon.api.schemas.field_rules import KnownMembers, Meaningless, Unserved
from antiphon.api.schemas.speech import Speed, Text
from antiphon.api.wire_format import WireFormat
from antiphon.contracts.well_formed import StrictModel
from antiphon.errors import invalid, missing
from antiphon.formats import AudioFormat
from antiphon.pipeline.speech.service import MAX_SAMPLE_RATE_HZ, MIN_SAMPLE_RATE_HZ

_FORMAT = re.compile(r"(mp3|pcm|wav|opus|ulaw|alaw)_(\d{4,5})(_\d+)?")
DEFAULT_FORMAT = "mp3_44100_128"
MAX_DIALOGUE_INPUTS = 200


_OF_VOICES = Meaningless("The model has no such setting of a voice.")
_CONTEXT = Meaningless("Each text is spoken for itself.")
_AS_SOON = Meaningless("Text is spoken as soon as it can be.")
_OF_KEYS = Meaningless("The key is read from the handshake.")
_NO_DICTIONARIES = Unserved("There are no dictionaries here.")


class VoiceSettings(KnownMembers):
    """Of all settings of a voice, the one that every model has."""

    speed: Speed | None = None
    stability: Annotated[Any, _OF_VOICES] = None
    similarity_boost: Annotated[Any, _OF_VOICES] = None
    style: Annotated[Any, _OF_VOICES] = None
    use_speaker_boost: Annotated[Any, _OF_VOICES] = None
    clone_strength: Annotated[Any, _OF_VOICES] = None


class _Parameters(StrictModel):
    """Members of both URLs and bodies."""

    model_id: Text | None = None
    language_code: Text | None = None
    seed: int | None = Field(None, ge=0, le=2**32 - 1)
    apply_text_normalization: Literal["auto", "on", "off"] | None = Field(
        None, description="on: numbers are written out in English words first."
    )


class SpeechQuery(_Parameters):
    """Query parameters."""

    output_format: Text = DEFAULT_FORMAT

    def format(self) -> WireFormat:
        """Return the audio's encoding; a bit rate is ours to choose; raises InvalidRequestError."""
        found = _FORMAT.fullmatch(self.output_format)
        rate_hz = int(found[2]) if found else 0
        if found is None or not MIN_SAMPLE_RATE_HZ <= rate_hz <= MAX_SAMPLE_RATE_HZ:
            raise invalid(
                "output_format",
                f"{ascii(self.output_format)[:60]}. It must be like mp3_44100_128, pcm_24000,"
                " wav_24000, opus_48000_64, ulaw_8000 or alaw_8000",
            )
        if found[1] in ("ulaw", "alaw"):
            return (WireFormat.mulaw if found[1] == "ulaw" else WireFormat.alaw)(rate_hz)
        return WireFormat.of(AudioFormat(found[1]), rate_hz)


class _TextBody(_Parameters):
    """What speech and dialogues have in common. Unknown members are kept, to be named."""

    model_config = ConfigDict(extra="allow")

    pronunciation_dictionary_locators: Annotated[Any, _NO_DICTIONARIES] = None
    audio_effects: Annotated[Any, Unserved("The audio is that of the model.")] = None
    previous_text: Annotated[Any, _CONTEXT] = None
    previous_request_ids: Annotated[Any, _CONTEXT] = None
    next_request_ids: Annotated[Any, _CONTEXT] = None
    use_pvc_as_ivc: Annotated[Any, _OF_VOICES] = None

    def over(self, query: SpeechQuery) -> SpeechQuery:
        """Return the query, completed by the body."""
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
    next_text: Annotated[Any, _CONTEXT] = None
    apply_language_text_normalization: Annotated[
        Any, Unserved("'apply_text_normalization' writes numbers out in English.", (False,))
    ] = None

    @property
    def speed(self) -> float:
        """The speed that it asks for."""
        return (self.voice_settings.speed if self.voice_settings else None) or 1.0


class DialogueInput(KnownMembers):
    """Text of one speaker."""

    text: Text
    voice_id: Text


class DialogueBody(_TextBody):
    """Texts in the order in which they are spoken."""

    inputs: list[DialogueInput] = Field(min_length=1, max_length=MAX_DIALOGUE_INPUTS)
    settings: Annotated[Any, _OF_VOICES] = None
    future_text: Annotated[Any, _CONTEXT] = None

    @property
    def text(self) -> str:
        """The whole text."""
        return " ".join(each.text for each in self.inputs)


class StreamMessage(KnownMembers):
    """A message of a stream; each member may be in any."""

    text: Text | None = None
    context_id: Text | None = Field(
        None, validation_alias=AliasChoices("context_id", "contextId"), max_length=256
    )
    flush: bool | None = None
    close_context: bool | None = None
    close_socket: bool | None = None
    voice_settings: VoiceSettings | None = None
    generation_config: Annotated[Any, _AS_SOON] = None
    generator_config: Annotated[Any, _AS_SOON] = None
    try_trigger_generation: Annotated[Any, _AS_SOON] = None
    xi_api_key: Annotated[
        Any, _OF_KEYS, Field(validation_alias=AliasChoices("xi_api_key", "xi-api-key"))
    ] = None
    authorization: Annotated[Any, _OF_KEYS] = None
    pronunciation_dictionary_locators: Annotated[Any, _NO_DICTIONARIES] = None

    @property
    def speed(self) -> float | None:
        """The speed that it asks for."""
        return self.voice_settings.speed if self.voice_settings else None

    def checked(self) -> Self:
        """Return the message, which must have a meaning; raises InvalidRequestError."""
        if self.text is None and not (self.flush or self.close_context or self.close_socket):
            raise missing("text")
        return self
