"""The part of OpenAI's realtime messages that is about speaking; all else in them is ignored."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from antiphon.api.schemas.speech import Speed, Text, VoiceName
from antiphon.api.wire_format import WireFormat
from antiphon.audio.encode import AudioFormat
from antiphon.models.well_formed import StrictModel

PCM_HZ = 24_000


class _Ignoring(StrictModel):
    """A part of a message; further members are ignored."""


def _format_object(value: Any) -> Any:
    """Accept the names that formats had before they were objects."""
    former = {"pcm16": "audio/pcm", "g711_ulaw": "audio/pcmu", "g711_alaw": "audio/pcma"}
    return {"type": former.get(value, value)} if isinstance(value, str) else value


class OutputFormat(_Ignoring):
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


class Output(_Ignoring):
    """How to speak; what is missing stays as it was."""

    voice: VoiceName | None = None
    format: Annotated[OutputFormat | None, BeforeValidator(_format_object)] = None
    speed: Speed | None = None


class SessionAudio(_Ignoring):
    """Of both directions, the one that we serve."""

    output: Output = Output()


class Speaking(_Ignoring):
    """How to speak, in the two places where clients say it."""

    audio: SessionAudio = SessionAudio()
    voice: VoiceName | None = None

    @property
    def output(self) -> Output:
        output = self.audio.output
        return output.model_copy(update={"voice": output.voice or self.voice})


class ContentPart(_Ignoring):
    """A part of an item; only text is spoken."""

    type: Text = ""
    text: Text | None = None


class Item(_Ignoring):
    """An item of the conversation, of which messages are spoken."""

    id: Text | None = Field(None, max_length=256)
    type: Text = "message"
    role: Text = "user"
    content: tuple[ContentPart, ...] = ()

    @property
    def text(self) -> str:
        """What it says."""
        is_said = self.type == "message" and self.role != "system"
        return "".join(part.text or "" for part in self.content) if is_said else ""


class Response(Speaking):
    """What is to be said now."""

    input: tuple[Item, ...] | None = None
    metadata: dict[str, Any] | None = None


class SessionUpdate(_Ignoring):
    """``session.update``."""

    session: Speaking = Speaking()


class ItemCreate(_Ignoring):
    """``conversation.item.create``."""

    item: Item


class ResponseCreate(_Ignoring):
    """``response.create``."""

    response: Response = Response()
