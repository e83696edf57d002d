"""The body of a chat: OpenAI's, with the sampling parameters of vLLM."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, model_validator

from antiphon.api.schemas.chat_fields import ChatPeerFields
from antiphon.api.schemas.field_rules import KnownMembers, Meaningless, Unserved, check_known
from antiphon.api.schemas.nullable import NULLS_MEAN_DEFAULTS
from antiphon.api.schemas.pictures import MAX_INT64, unpacked
from antiphon.api.schemas.speakable import Speakable
from antiphon.contracts.chat_types import ChatRequest, ChatRole, ChatSampling, Message
from antiphon.contracts.sampling import names_of
from antiphon.contracts.types import new_seed
from antiphon.errors import InvalidRequestError, invalid, missing, shortened
from antiphon.formats import AudioFormat

_ROLES: Mapping[str, ChatRole] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_TEXT_PARTS = ("text", "input_text")
_OWN_CACHE = Meaningless("Prefixes of prompts are always cached.")
_NO_THOUGHTS = Meaningless("Thoughts of earlier answers are no part of a prompt.")


class ImageAddress(KnownMembers):
    """Where an image is."""

    url: str
    detail: Annotated[str | None, Meaningless("Images are read at their own size.")] = None


def _address_object(value: Any) -> Any:
    return {"url": value} if isinstance(value, str) else value


class ChatPart(KnownMembers):
    """A part of a message: text, or an image."""

    type: str
    text: str = ""
    image_url: Annotated[ImageAddress | None, BeforeValidator(_address_object)] = None
    refusal: Annotated[str | None, Meaningless("Parts of this type are refused.")] = None
    input_audio: Annotated[Any, Meaningless("Parts of this type are refused.")] = None
    audio_url: Annotated[Any, Meaningless("Parts of this type are refused.")] = None
    video_url: Annotated[Any, Meaningless("Parts of this type are refused.")] = None
    file: Annotated[Any, Meaningless("Parts of this type are refused.")] = None
    prompt_cache_breakpoint: Annotated[Any, _OWN_CACHE] = None
    cache_control: Annotated[Any, _OWN_CACHE] = None
    uuid: Annotated[str | None, Meaningless("Images are not kept between requests.")] = None


_PARTS = "list[ChatPart]"
# Chosen by its type: the errors of a part never mention texts.
Content = Annotated[
    Annotated[str, Tag("str")] | Annotated[list[ChatPart], Tag(_PARTS)],
    Discriminator(lambda value: _PARTS if isinstance(value, list) else "str"),
]


class ChatMessage(KnownMembers):
    """A message of a chat."""

    role: str = Field(description="system, developer, user or assistant.")
    content: Content | None = None
    audio: Annotated[Any, Meaningless("Its transcript has to be the content.")] = None
    tool_calls: Annotated[Any, Unserved("No model here calls tools.")] = None
    function_call: Annotated[Any, Unserved("No model here calls tools.")] = None
    tool_call_id: Annotated[Any, Meaningless("Messages of tools are refused.")] = None
    name: Annotated[str | None, Meaningless("Chat templates name no participants.")] = None
    refusal: Annotated[Any, Unserved("Send the refusal as 'content'.")] = None
    annotations: Annotated[Any, Meaningless("Annotations are no part of a prompt.")] = None
    reasoning: Annotated[str | None, _NO_THOUGHTS] = None
    reasoning_content: Annotated[str | None, _NO_THOUGHTS] = None

    @property
    def text(self) -> str:
        """All of its text."""
        if isinstance(self.content, list):
            return "\n".join(part.text for part in self.content if part.type in _TEXT_PARTS)
        return self.content or ""

    @property
    def images(self) -> list[Any]:
        """Addresses of its images."""
        parts = self.content if isinstance(self.content, list) else []
        return [part.image_url and part.image_url.url for part in parts if part.type == "image_url"]

    def to_domain(self, place: str) -> Message:
        """Return a message of text; ``place`` names it in errors; raises InvalidRequestError."""
        if self.role not in _ROLES:
            raise invalid(
                f"{place}.role", f"'{shortened(self.role)}'. It must be one of {', '.join(_ROLES)}"
            )
        for part in self.content if isinstance(self.content, list) else ():
            if part.type not in _TEXT_PARTS:
                raise invalid(
                    f"{place}.content",
                    f"a part is '{shortened(part.type)}'. This model reads text alone: parts must"
                    " be of the type 'text'",
                )
        if self.content is None and self.audio:
            raise invalid(
                f"{place}.audio", "no audio is kept here. Send its transcript as 'content'"
            )
        if self.content is None:
            raise missing(f"{place}.content")
        return Message(_ROLES[self.role], self.text)


class StreamOptions(KnownMembers):
    """What a stream reports beside the answer."""

    include_usage: bool = False
    include_obfuscation: Annotated[bool | None, Meaningless("Events have no padding.")] = None
    continuous_usage_stats: Annotated[
        Any, Unserved("Usage is sent once, by 'include_usage'.", (False,))
    ] = None


class ChatAudio(KnownMembers):
    """How an answer is spoken."""

    voice: str | dict[str, Any] | None = Field(None, description="A voice's id, or {'id': it}.")
    format: Literal["wav", "mp3", "aac", "flac", "opus", "pcm16"] = Field(
        "wav", description="pcm16: samples at 24 kHz without a header."
    )
    model: str | None = Field(
        None,
        description="That speaks; default: the model that chats if it has a voice of its own, or"
        " the first one that speaks.",
    )
    speakable: Speakable = Field(
        Speakable(), description="How markdown, code, tables, addresses and emoji are spoken."
    )

    @property
    def voice_name(self) -> str | None:
        """The voice's id; raises InvalidRequestError."""
        if not isinstance(self.voice, dict):
            return self.voice
        if not isinstance(id := self.voice.get("id"), str):
            raise missing("audio.voice.id")
        check_known(self.voice, ("id",), "audio.voice")
        return id

    @property
    def audio_format(self) -> AudioFormat:
        """Of the file."""
        return AudioFormat.PCM if self.format == "pcm16" else AudioFormat(self.format)

    @property
    def sample_rate_hz(self) -> int | None:
        """Form that clients expect; ``None``: the model's own, as in its file."""
        return 24_000 if self.format == "pcm16" else None


class ChatBody(ChatPeerFields):
    """A conversation, and how its next message is to be written.

    Further members are kept: a model that draws takes the parameters of images.
    """

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra=NULLS_MEAN_DEFAULTS,
    )

    messages: list[ChatMessage] = Field(min_length=1, description="The last one is answered.")
    model: str | None = Field(None, description="A served model or an alias of one.")
    stream: bool = Field(False, description="Server-sent events.")
    stream_options: StreamOptions | None = None
    max_completion_tokens: int | None = Field(None, description="Most tokens of the answer.")
    max_tokens: int | None = Field(None, description="An older name of max_completion_tokens.")
    temperature: float | None = Field(None, description="0: the likeliest token, always.")
    top_p: float | None = Field(None, description="Share of probability that is drawn from.")
    top_k: int | None = Field(None, description="So many tokens are drawn from. 0 and -1: all.")
    min_p: float | None = Field(
        None, description="Least probability of what is drawn, as a share of the likeliest's."
    )
    presence_penalty: float | None = Field(None, description="For tokens that are there.")
    frequency_penalty: float | None = Field(None, description="For each time they are there.")
    repetition_penalty: float | None = Field(
        None, description="Factor for tokens of messages and answer; 1: none."
    )
    seed: int | None = Field(
        None, ge=-MAX_INT64 - 1, le=MAX_INT64, description="The same seed writes the same."
    )
    stop: str | list[str] | None = Field(None, description="Texts before which it ends.")
    n: int = Field(1, ge=1, description="Answers; of seeds that follow each other.")
    logprobs: bool = Field(False, description="Return the log probabilities of tokens.")
    top_logprobs: int | None = Field(None, description="Likeliest tokens returned of each.")
    logit_bias: dict[int, float] | None = Field(
        None, description="Added to the logits of tokens, by their ids."
    )
    chat_template_kwargs: dict[str, Any] | None = Field(
        None, description="For the checkpoint's chat template, as {'enable_thinking': false}."
    )
    enable_thinking: bool | None = Field(None, description="The same, of this one.")
    reasoning_effort: Literal["none", "medium"] | None = Field(
        None, description="none: as enable_thinking false; medium: the model's own."
    )
    ignore_eos: bool = Field(
        False, description="No token that ends the answer is drawn: it has max_tokens."
    )
    min_tokens: int | None = Field(
        None, ge=0, description="Tokens before which no token that ends the answer is drawn."
    )
    response_format: Any = Field(None, description="{'type': 'text'}; others are refused.")
    modalities: list[str] | None = Field(
        None, description="['text'], with 'audio' to have it spoken, or with 'image'."
    )
    audio: ChatAudio | None = Field(None, description="How it is spoken.")
    user: str | None = Field(None, description="Accepted; it means nothing here.")

    @model_validator(mode="before")
    @classmethod
    def _nulls_mean_defaults(cls, body: Any) -> Any:
        if not isinstance(body, Mapping):
            return body
        given = unpacked({name: value for name, value in body.items() if value is not None})
        if given.get("tool_choice") == "none":
            given.pop("tools", None)
        return given

    @property
    def members(self) -> dict[str, Any]:
        """What was sent, as it would have to be sent again."""
        return self.model_dump(exclude_unset=True)

    @property
    def spoken(self) -> ChatAudio | None:
        """How the answer is spoken; ``None``: it is not; raises InvalidRequestError."""
        is_wanted = "audio" in (self.modalities or ())
        if is_wanted and self.audio is None:
            raise InvalidRequestError(
                "Missing required parameter: 'audio', the voice and format of the answer.",
                param="audio",
                code="missing_required_parameter",
            )
        if self.audio is not None and not is_wanted:
            raise InvalidRequestError(
                "'audio' needs 'modalities': ['text', 'audio'].", param="modalities"
            )
        if is_wanted and self.logprobs:
            raise InvalidRequestError(
                "'logprobs' is not supported with audio output.", param="logprobs"
            )
        return self.audio

    @property
    def tells_usage(self) -> bool:
        """Whether a stream ends with what was used."""
        return self.stream_options is not None and self.stream_options.include_usage

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names of members that mean nothing to an answer of text."""
        return tuple(self.model_extra or ())

    def to_domain(self, request_id: str, max_choices: int) -> tuple[ChatRequest, ...]:
        """Return the requests of all answers, with successive seeds; raises InvalidRequestError.

        Args:
            request_id: must be unique: the engine's keys of the requests begin with it.
        """
        self._refuse_not_served()
        if self.n > max_choices:
            raise invalid("n", f"{self.n}. It must be at most {max_choices}")
        messages = tuple(
            message.to_domain(f"messages.{number}") for number, message in enumerate(self.messages)
        )
        seed = new_seed() if self.seed is None else self.seed & MAX_INT64
        request = ChatRequest(
            messages=messages,
            model=self.model,
            max_tokens=self._max_tokens(),
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            sampling=self._sampling(),
            num_logprobs=self._num_logprobs(),
            template_kwargs=self._template_kwargs(),
            min_tokens=self.min_tokens or 0,
            ignore_eos=self.ignore_eos,
        )
        return tuple(
            replace(request, id=f"{request_id}-{number}", seed=(seed + number) & MAX_INT64)
            for number in range(self.n)
        )

    def _sampling(self) -> ChatSampling:
        given = self.model_dump(include={"logit_bias", *names_of(ChatSampling)})
        return ChatSampling(**{**given, "top_k": 0 if self.top_k == -1 else self.top_k})

    def _template_kwargs(self) -> dict[str, Any]:
        own = {} if self.enable_thinking is None else {"enable_thinking": self.enable_thinking}
        own |= self.chat_template_kwargs or {}
        if (
            self.reasoning_effort == "none"
            and own.setdefault("enable_thinking", False) is not False
        ):
            raise InvalidRequestError(
                "'reasoning_effort' and 'enable_thinking' differ. Leave one out.",
                param="reasoning_effort",
            )
        return own

    def _max_tokens(self) -> int | None:
        if self.max_completion_tokens is None:
            return self.max_tokens
        if self.max_tokens not in (None, self.max_completion_tokens):
            raise InvalidRequestError(
                "'max_tokens' and 'max_completion_tokens' mean the same: leave one out.",
                param="max_tokens",
            )
        return self.max_completion_tokens

    def _num_logprobs(self) -> int | None:
        if self.top_logprobs and not self.logprobs:
            raise InvalidRequestError(
                "'top_logprobs' needs 'logprobs': true.", param="top_logprobs"
            )
        return (self.top_logprobs or 0) if self.logprobs else None

    def _refuse_not_served(self) -> None:
        format = self.response_format
        if format not in (None, {"type": "text"}):
            raise invalid(
                "response_format",
                "answers follow no schema. It must be {'type': 'text'}, or be left out",
            )
        if wrong := [name for name in self.modalities or () if name not in ("text", "audio")]:
            raise invalid("modalities", f"'{shortened(wrong[0])}'. This model answers with text")
