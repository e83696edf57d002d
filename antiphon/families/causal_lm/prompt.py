"""Prompts from conversations, by template, tokenizer and defaults, and state of their requests."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.chat import ChatCapabilities, answer_limits, complete_sampling
from antiphon.contracts.chat_types import ChatRequest, ChatSampling, Message
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.errors import InvalidRequestError
from antiphon.families.causal_lm.chat_template import load_chat_markup
from antiphon.families.causal_lm.config import load_config
from antiphon.families.causal_lm.tokenizer import load_tokenizer
from antiphon.families.kit.token_decoder import TokenDecoder

if TYPE_CHECKING:
    from torch import Tensor

MAX_TOLD_POSITIONS = 4096
"""Maximum prompt length of an answer whose hidden states are exported."""
_THOUGHT_BEGIN = "<think>"
_SAMPLE = ChatRequest((Message("user", "Hello"),), max_tokens=8)


@dataclass(frozen=True, slots=True)
class CausalLMPrompt:
    """Input of the language model.

    Attributes:
        ids: ids of the conversation; the answer begins after the last one.
        num_logprobs: number of logprobs, see `antiphon.contracts.chat_types.ChatRequest`.
        is_spoken: whether the answer is spoken; hidden states are then exported.
        in_thought: state from `antiphon.contracts.chat.ChatPrompter.in_thought`.
    """

    ids: tuple[int, ...]
    sampling: ChatSampling
    num_logprobs: int | None = None
    is_spoken: bool = False
    in_thought: bool = False


@dataclass(slots=True, eq=False)
class CausalLMRequest:
    """Host-side state of a request in a slot.

    Attributes:
        ids: ids of the prompt, followed by the tokens drawn before the slot was assigned.
        states: hidden states of the prompt, as far as computed; ``None`` once exported.
    """

    prompt: CausalLMPrompt
    ids: NDArray[np.int64]
    states: "Tensor | None" = None

    @property
    def is_told(self) -> bool:
        """Whether the prompt's hidden states are still to be exported, with its first token."""
        return self.prompt.is_spoken and len(self.ids) == len(self.prompt.ids)

    @classmethod
    def of(cls, prompt: CausalLMPrompt, answer: Sequence[int]) -> "CausalLMRequest":
        """Start a request, or resume it after the tokens that it has drawn."""
        return cls(prompt, np.array((*prompt.ids, *answer), np.int64))


class CausalLMPrompter:
    """An `antiphon.contracts.chat.ChatPrompter`."""

    def __init__(self, context: LoadContext) -> None:
        """Load a checkpoint's configuration, tokenizer and template; raises ModelLoadError."""
        config = load_config(context.checkpoint)
        self._tokenizer = load_tokenizer(context.checkpoint)
        self._markup = load_chat_markup(context.checkpoint)
        self.capabilities = ChatCapabilities(
            sample_request=_SAMPLE,
            sampling=config.sampling,
            max_positions=config.max_positions(context),
            vocab_size=config.vocab_size,
            thinks=self._markup.thinks,
        )

    def build(self, request: ChatRequest, seed: int) -> Prompt:
        messages = [
            replace(each, content=self._tokenizer.guarded(each.content))
            for each in request.messages
        ]
        variables = {
            name: self._tokenizer.guarded(value) if isinstance(value, str) else value
            for name, value in request.template_kwargs.items()
        }
        text = self._markup.render(messages, variables)
        max_positions = self.capabilities.max_positions
        found, num_tokens = self._tokenizer.encode_within(text, max_positions)
        if not num_tokens:
            raise InvalidRequestError("These messages make an empty prompt.", param="messages")
        limits = answer_limits(request, num_tokens, max_positions)
        ids = tuple(found)
        if max(ids) >= self.capabilities.vocab_size:
            # The tokenizer has tokens without a row in the checkpoint's embedding.
            raise InvalidRequestError(
                f"The messages have a token {max(ids)} in this model's tokenizer, which the model"
                f" lacks. Allowed: 0 to {self.capabilities.vocab_size - 1}.",
                param="messages",
            )
        if request.is_spoken and len(ids) > MAX_TOLD_POSITIONS:
            raise InvalidRequestError(
                f"The messages have {len(ids)} tokens; at most {MAX_TOLD_POSITIONS} are allowed if"
                " the model's own voice answers.",
                param="messages",
                code="context_length_exceeded",
            )
        sampling = complete_sampling(request, self.capabilities)
        return Prompt(
            data=CausalLMPrompt(
                ids,
                sampling,
                request.num_logprobs,
                request.is_spoken,
                self._markup.thinks and text.rstrip().endswith(_THOUGHT_BEGIN),
            ),
            num_tokens=len(ids),
            seed=seed,
            sampling=limits,
            num_positions=len(ids) - 1,
            # Exported hidden states cannot come from a cached prefix.
            position_keys=() if request.is_spoken else ids[:-1],
        )

    def in_thought(self, prompt: Prompt) -> bool:
        """Return whether the prompt ends within thoughts begun by the template."""
        assert isinstance(prompt.data, CausalLMPrompt)
        return prompt.data.in_thought

    def detokenizer(self) -> TokenDecoder:
        return self._tokenizer.decoder()

    def token_bytes(self, token: int) -> bytes:
        return self._tokenizer.token_bytes(token)
