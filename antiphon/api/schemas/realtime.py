"""OpenAI's realtime messages to a model that only speaks."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from antiphon.api.schemas.field_rules import KnownMembers, Meaningless, Unserved
from antiphon.api.schemas.realtime_fields import (
    InputAudio,
    RealtimeItem,
    RealtimeMessage,
    RealtimeOptions,
    SessionOptions,
)
from antiphon.api.schemas.speech import Speed, Text, VoiceName
from antiphon.api.wire_format import WireFormat
from antiphon.formats import AudioFormat

PCM_HZ = 24_000
_WHOLE_TEXT = "A response is spoken to the end of its text."


def _format_object(value: Any) -> Any:
    """Accept the names that formats had before they were objects."""
    former = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
    return {"type": former.get(value, value)} if isinstance(value, str) else value


def _with_audio(value: list[str]) -> list[str]:
    if "audio" not in value:
        raise PydanticCustomError("modalities", "it must be ['audio']: this model only speaks")
    return value


Modalities = Annotated[list[Literal["text", "audio"]], AfterValidator(_with_audio)]


class OutputFormat(KnownMembers):
    """How audio is coded."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: Literal[24_000, 8_000] | None = None

    def as_wire(self) -> WireFormat:
        """Return it in our own terms."""
        if self.type == "audio/pcmu":
            return WireFormat.mulaw()
        if self.type == "audio/pcma":
            return WireFormat.alaw()
        return WireFormat.of(AudioFormat.PCM, PCM_HZ)


class Output(KnownMembers):
    """How to speak; what is missing stays as it was."""

    voice: VoiceName | None = None
    format: Annotated[OutputFormat | None, BeforeValidator(_format_object)] = None
    speed: Speed | None = None


class SessionAudio(KnownMembers):
    """Of both directions, the one that is served."""

    input: Annotated[InputAudio | None, Meaningless("No audio is read.")] = None
    output: Output = Output()


class VoiceOptions(RealtimeOptions):
    """How to speak, in the places where clients state it."""

    audio: SessionAudio = SessionAudio()
    voice: VoiceName | None = None
    speed: Speed | None = None
    output_audio_format: Annotated[OutputFormat | None, BeforeValidator(_format_object)] = None

    @property
    def output(self) -> Output:
        """How to speak."""
        own = self.audio.output
        return own.model_copy(
            update={
                "voice": own.voice or self.voice,
                "speed": own.speed or self.speed,
                "format": own.format or self.output_audio_format,
            }
        )


class Speaking(VoiceOptions):
    """Options of a session or a response that is spoken."""

    output_modalities: Modalities | None = None
    modalities: Modalities | None = None
    instructions: Annotated[
        str | None,
        Meaningless("It is a prompt for a chat model; the text is spoken."),
    ] = None
    max_output_tokens: Annotated[Any, Unserved(_WHOLE_TEXT, ("inf",))] = None
    max_response_output_tokens: Annotated[Any, Unserved(_WHOLE_TEXT, ("inf",))] = None
    temperature: Annotated[Any, Unserved("Speech is drawn with the model's own.", (0.8,))] = None
    tools: Annotated[Any, Unserved("No model here calls tools.")] = None
    tool_choice: Annotated[Any, Unserved("No model here calls tools.", ("auto", "none"))] = None


class SpeakingSession(SessionOptions, Speaking):
    """How to speak all that follows."""


class ContentPart(KnownMembers):
    """A part of an item; only text is spoken."""

    type: Text = ""
    text: Text | None = None
    transcript: Annotated[Text | None, Unserved("Send what is to be spoken as 'text'.")] = None
    audio: Annotated[Any, Unserved("Send what is to be spoken as 'text'.")] = None
    image_url: Annotated[Any, Unserved("Send what is to be spoken as 'text'.")] = None
    detail: Annotated[str | None, Meaningless("Images are refused.")] = None


class Item(RealtimeItem):
    """An item of the conversation, of which messages are spoken."""

    id: Text | None = Field(None, max_length=256)
    type: Text = "message"
    role: Text = "user"
    content: tuple[ContentPart, ...] = ()

    @property
    def text(self) -> str:
        """Text of the item."""
        is_said = self.type == "message" and self.role != "system"
        return "".join(part.text or "" for part in self.content) if is_said else ""


class Response(Speaking):
    """Items to be spoken now."""

    input: tuple[Item, ...] | None = None
    conversation: Annotated[
        Literal["auto", "none"] | None, Meaningless("A response is the text of its items.")
    ] = None
    metadata: dict[str, Any] | None = None


class SessionUpdate(RealtimeMessage):
    """``session.update``."""

    session: SpeakingSession


class ItemCreate(RealtimeMessage):
    """``conversation.item.create``."""

    item: Item
    previous_item_id: Annotated[
        Any, Unserved("Items are spoken in the order in which they come.")
    ] = None


class TextAppend(RealtimeMessage):
    """``input_text.append``: more of the open text, an extension of NVIDIA Dynamo."""

    text: Text


class ResponseCreate(RealtimeMessage):
    """``response.create``."""

    response: Response = Response()


class ResponseCancel(RealtimeMessage):
    """``response.cancel``."""

    response_id: Text | None = None
