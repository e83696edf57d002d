"""Declarations and protocols of tasks that write text, without torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from antiphon.contracts.chat_types import ChatRequest, ChatSampling
from antiphon.contracts.family import Capabilities, VoiceCapabilities
from antiphon.contracts.prompt import Piece, Prompt
from antiphon.contracts.types import PositionStates, Sampling
from antiphon.errors import InvalidRequestError

MAX_BIASES = 1024
"""Tokens of one request whose logits can be biased."""
CHAT_VOICE = "chat_voice"
"""Task of a model that speaks its own chat answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCapabilities(Capabilities):
    """Capabilities of a loaded model in the task of chats.

    Attributes:
        sampling: defaults of the checkpoint, every field set.
        max_positions: Positions of prompt and answer together.
        vocab_size: ids of tokens are below it.
        thinks: whether an answer may begin with thoughts, between ``<think>`` and ``</think>``.
    """

    sample_request: ChatRequest
    sampling: ChatSampling
    max_positions: int
    vocab_size: int
    logprobs: bool = True
    thinks: bool = False


class Detokenizer(Protocol):
    """Incremental decoder of an answer's tokens."""

    def push(self, token: int) -> str:
        """Return the text that is certain by now, "" within a character or a control token."""

    def flush(self) -> str:
        """Return the rest at the end: U+FFFD for incomplete characters."""


@dataclass(frozen=True, slots=True, eq=False)
class AnswerVoiceRequest:
    """A request to speak an answer while it is written.

    Attributes:
        states: Hidden states of the prompt, exported by the language model.
        voice: id of one of the model's own.
    """

    states: PositionStates
    voice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerVoiceCapabilities(VoiceCapabilities):
    """Capabilities of a loaded model that speaks its own answers.

    Attributes:
        instructions: the system prompt after which the model was trained to speak; "": any.
    """

    sample_request: AnswerVoiceRequest
    instructions: str = ""


class AnswerVoicePrompter(Protocol):
    """Turns a language model's hidden states into prompts and pieces of its voice; pure."""

    @property
    def capabilities(self) -> AnswerVoiceCapabilities:
        """What the loaded checkpoint can do."""

    def build(self, request: AnswerVoiceRequest, seed: int) -> Prompt:
        """Build the prompt of an answer of which nothing is known yet."""

    def piece(self, states: PositionStates | None, num_before: int) -> Piece:
        """Return what more of the answer means to the voice; ``None``: the answer is complete.

        Args:
            states: Hidden states of the answer, in order.
            num_before: Number of its positions that came before.
        """


class ChatPrompter(Protocol):
    """Turns conversations into prompts; pure, and called in worker threads."""

    @property
    def capabilities(self) -> ChatCapabilities:
        """What the loaded checkpoint can do."""

    def build(self, request: ChatRequest, seed: int) -> Prompt:
        """Render the checkpoint's chat template and tokenize; raises InvalidRequestError.

        `Prompt.sampling.max_frames` is the limit of the answer's tokens, ``max_tokens`` or what the
        context has room for. The stage's frames are those of `antiphon.contracts.token_frame`; it
        ends with "stop" at a token that ends the answer, which is no frame, and with "length" at
        the limit.
        """

    def in_thought(self, prompt: Prompt) -> bool:
        """Return whether a prompt ends with ``<think>``: its answer begins within thoughts."""

    def detokenizer(self) -> Detokenizer:
        """Return a fresh one."""

    def token_bytes(self, token: int) -> bytes:
        """Return what a token stands for."""


def answer_limits(request: ChatRequest, num_tokens: int, max_positions: int) -> Sampling:
    """Return the limits of an answer: those asked for, or its room; raises InvalidRequestError."""
    room, wanted_tokens = max_positions - num_tokens, request.max_tokens or request.min_tokens
    if room < (wanted_tokens or 1):
        wanted = f" and {wanted_tokens} of the answer" if wanted_tokens else ""
        raise InvalidRequestError(
            f"This model's context has room for {max_positions} tokens, and the messages have"
            f" {num_tokens}{wanted}. Shorten the messages, or ask for a shorter answer.",
            param="messages" if room < 1 else "max_tokens" if request.max_tokens else "min_tokens",
            code="context_length_exceeded",
        )
    return Sampling(
        max_frames=request.max_tokens or room,
        min_frames=request.min_tokens,
        ignore_eos=request.ignore_eos,
    )


def complete_sampling(request: ChatRequest, capabilities: ChatCapabilities) -> ChatSampling:
    """Return how a request's tokens are drawn, every field set; raises InvalidRequestError."""
    sampling = request.sampling.with_defaults(capabilities.sampling)
    biases: Mapping[int, float] = sampling.logit_bias or {}
    if len(biases) > MAX_BIASES:
        message = f"logit_bias must have at most {MAX_BIASES} tokens, but has {len(biases)}."
        raise InvalidRequestError(message, param="logit_bias")
    for token in biases:
        if not 0 <= token < capabilities.vocab_size:
            last = capabilities.vocab_size - 1
            message = f"logit_bias names token {token}; the model has 0 to {last}."
            raise InvalidRequestError(message, param="logit_bias")
    return replace(sampling, logit_bias=dict(biases))
