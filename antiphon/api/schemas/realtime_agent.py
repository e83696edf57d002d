"""OpenAI's realtime messages to an agent that reads text and answers with speech or text."""

from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from antiphon.api.schemas.field_rules import KnownMembers, Meaningless
from antiphon.api.schemas.realtime import Output, SessionAudio, VoiceOptions
from antiphon.api.schemas.realtime_fields import RealtimeItem, RealtimeMessage, SessionOptions
from antiphon.api.schemas.speakable import Speakable
from antiphon.api.schemas.speech import Text
from antiphon.errors import InvalidRequestError, invalid, shortened

NO_LIMIT = 2**63 - 1


def _as_number(limit: Any) -> Any:
    return NO_LIMIT if limit == "inf" else limit


TokenLimit: TypeAlias = Annotated[int, Field(ge=1, le=NO_LIMIT), BeforeValidator(_as_number)]
"""Of an answer; "inf", which is `NO_LIMIT`: as many as there is room for."""

_ROLES = ("system", "user", "assistant")
_TEXTS = ("input_text", "output_text", "text")
_AUDIO = ("output_audio", "audio", "input_audio")


class AgentOutput(Output):
    """How an agent speaks."""

    model: Text | None = None
    speakable: Speakable | None = None


class AgentAudio(SessionAudio):
    """Of both directions, the one that is served."""

    output: AgentOutput = AgentOutput()


class AgentOptions(VoiceOptions):
    """Options of an answer: a session's, which a response may override."""

    instructions: Text | None = None
    output_modalities: list[Text] | None = None
    modalities: list[Text] | None = None  # the same, in the protocol's first edition
    max_output_tokens: TokenLimit | None = None
    max_response_output_tokens: TokenLimit | None = None  # the same
    temperature: float | None = Field(None, ge=0, le=2)
    audio: AgentAudio = AgentAudio()
    tools: list[Any] | None = None
    tool_choice: Any = None

    @property
    def speaks(self) -> bool | None:
        """Whether answers are spoken; ``None``: not given; raises InvalidRequestError."""
        wanted = self.output_modalities if self.modalities is None else self.modalities
        if wanted is None:
            return None
        if not wanted or not {*wanted} <= {"text", "audio"}:
            raise invalid("output_modalities", "it must be ['audio'] or ['text']")
        return "audio" in wanted

    @property
    def max_tokens(self) -> TokenLimit | None:
        """The limit of an answer's tokens."""
        if self.max_output_tokens is None:
            return self.max_response_output_tokens
        return self.max_output_tokens

    @property
    def output(self) -> AgentOutput:
        """How to speak."""
        output = super().output
        assert isinstance(output, AgentOutput), "so is its default"
        return output

    def refuse_tools(self) -> None:
        """Check that no tool is requested; raises InvalidRequestError."""
        if self.tools and self.tool_choice != "none":
            raise InvalidRequestError(
                "'tools' are not supported here: no model here calls tools.", param="tools"
            )


class AgentSession(SessionOptions, AgentOptions):
    """How to answer all that follows."""


class AgentContent(KnownMembers):
    """A part of an item."""

    type: Text
    text: Text | None = None
    transcript: Text | None = None
    audio: Annotated[Any, Meaningless("The transcript is read; parts without one are refused.")] = (
        None
    )
    image_url: Annotated[Any, Meaningless("Parts of images are refused.")] = None
    detail: Annotated[str | None, Meaningless("Parts of images are refused.")] = None


class AgentItem(RealtimeItem):
    """An item of the conversation, or a reference to one."""

    id: Text | None = Field(None, min_length=1, max_length=256)
    type: Text = "message"
    role: Text = "user"
    content: tuple[AgentContent, ...] = ()

    def check(self) -> None:
        """Check that it is a message of text; raises InvalidRequestError."""
        if self.type != "message":
            raise invalid(
                "item.type",
                f"'{shortened(self.type)}'. It must be 'message': no model here calls tools",
            )
        if self.role not in _ROLES:
            raise invalid(
                "item.role", f"'{shortened(self.role)}'. It must be one of {', '.join(_ROLES)}"
            )
        for part in self.content:
            if part.type in _TEXTS or (part.type in _AUDIO and part.transcript is not None):
                continue
            raise invalid(
                "item.content",
                f"a part is '{shortened(part.type)}'. Models here read text: parts must be"
                " 'input_text' or 'output_text', or have a 'transcript'",
            )

    @property
    def text(self) -> str:
        """Text of the item."""
        return "\n".join(part.text or part.transcript or "" for part in self.content)

    @property
    def is_spoken(self) -> bool:
        """Whether its text is a transcript."""
        return bool(self.content) and self.content[0].type in _AUDIO


class AgentReply(AgentOptions):
    """What is to be answered now."""

    conversation: Literal["auto", "none"] | None = None
    input: tuple[AgentItem, ...] | None = None
    metadata: dict[str, Any] | None = None


class AgentSessionUpdate(RealtimeMessage):
    """``session.update``."""

    session: AgentSession


class AgentItemCreate(RealtimeMessage):
    """``conversation.item.create``."""

    item: AgentItem
    previous_item_id: Text | None = None


class AgentItemNamed(RealtimeMessage):
    """``conversation.item.retrieve`` and ``conversation.item.delete``."""

    item_id: Text


class AgentItemTruncate(RealtimeMessage):
    """``conversation.item.truncate``."""

    item_id: Text
    content_index: int = Field(0, ge=0, le=0)
    audio_end_ms: int = Field(ge=0)


class AgentReplyCreate(RealtimeMessage):
    """``response.create``."""

    response: AgentReply = AgentReply()
