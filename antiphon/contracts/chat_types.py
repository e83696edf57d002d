"""Frozen vocabulary of chats: what is asked of a model that writes, and what it answers."""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from antiphon.contracts.sampling import ChatSampling as ChatSampling
from antiphon.contracts.types import Ended, FinishReason, Usage, new_request_id

ChatRole: TypeAlias = Literal["system", "user", "assistant"]
"""``developer`` of the wire is ``system`` here."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a conversation, of text alone."""

    role: ChatRole
    content: str


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One answer to be written.

    Attributes:
        messages: the conversation; the last one is to be answered.
        model: a served model's name; ``None`` is the default one.
        max_tokens: Limit of the answer; ``None``: the room that the context has.
        stop: texts before which the answer ends; they are not part of it.
        seed: makes the answer repeatable; ``None`` draws one.
        sampling: overrides of the checkpoint's defaults.
        num_logprobs: Likeliest tokens returned beside each token, 0 to 20; ``None``: no
            logarithms of probabilities at all.
        template_kwargs: Variables of the chat template: text, number, truth or ``None``.
        min_tokens: Tokens before which no token that ends the answer is drawn.
        ignore_eos: Whether none is drawn at all, so that only ``max_tokens`` or ``stop`` end it.
        is_live: Whether a client waits for it; otherwise its priority is offline.
        is_spoken: Whether the model exports its hidden states, from which its own voice is made.
        id: names the request in logs, metrics and the engine.
    """

    messages: tuple[Message, ...]
    model: str | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    sampling: ChatSampling = field(default_factory=ChatSampling)
    num_logprobs: int | None = None
    template_kwargs: Mapping[str, object] = field(default_factory=dict)
    min_tokens: int = 0
    ignore_eos: bool = False
    is_live: bool = True
    is_spoken: bool = False
    id: str = field(default_factory=new_request_id)


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of an answer, or one that might have been.

    Attributes:
        token: its text; bytes that are no character by themselves are U+FFFD here.
        logprob: natural logarithm of its probability, before penalties and temperature.
        top: the likeliest tokens in its place, the likeliest first; empty within ``top``.
    """

    token: str
    content: bytes
    logprob: float
    top: "tuple[TokenLogprob, ...]" = ()


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A part of an answer: all deltas joined are the whole, and none ends within a character.

    Attributes:
        text: New text, not empty unless only ``logprobs`` or thoughts are returned.
        logprobs: Log probabilities of these tokens, if they were requested.
        reasoning: Thoughts of the model before its answer.
    """

    text: str
    num_tokens: int = 1
    logprobs: tuple[TokenLogprob, ...] = ()
    reasoning: str = ""


ChatEvent: TypeAlias = TextDelta | Ended
ChatStream: TypeAlias = AsyncGenerator[ChatEvent, None]
ChatStreams: TypeAlias = AsyncGenerator[tuple[int, ChatEvent], None]


@dataclass(frozen=True, slots=True)
class ChatAnswer:
    """A whole answer.

    Attributes:
        finish_reason: "stop", or "length" at the limit of tokens.
        logprobs: Log probabilities of its tokens, if they were requested.
        reasoning: Thoughts of the model before its answer.
    """

    text: str
    finish_reason: FinishReason
    usage: Usage
    logprobs: tuple[TokenLogprob, ...] = ()
    reasoning: str = ""
