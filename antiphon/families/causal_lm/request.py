"""Prompt of the language model, and host-side state of a request in a slot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.chat_types import ChatSampling

if TYPE_CHECKING:
    from torch import Tensor

MAX_TOLD_POSITIONS = 4096
"""Maximum prompt length of an answer whose hidden states are exported."""


@dataclass(frozen=True, slots=True)
class CausalLMPrompt:
    """Input of the language model.

    Attributes:
        ids: ids of the conversation; the answer begins after the last one.
        sampling: complete sampling parameters.
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
