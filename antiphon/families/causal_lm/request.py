"""What the model reads of a prompt, and what the host keeps of a request in a slot."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.chat_types import ChatSampling

if TYPE_CHECKING:
    from torch import Tensor

MAX_TOLD_POSITIONS = 4096
"""Of the prompt of an answer whose states are told."""


@dataclass(frozen=True, slots=True)
class CausalLMPrompt:
    """What the model reads.

    Attributes:
        ids: of the conversation; the answer begins after the last one.
        sampling: complete.
        num_logprobs: see `antiphon.contracts.chat_types.ChatRequest`.
        is_spoken: likewise.
        in_thought: see `antiphon.contracts.chat.ChatPrompter.in_thought`.
    """

    ids: tuple[int, ...]
    sampling: ChatSampling
    num_logprobs: int | None = None
    is_spoken: bool = False
    in_thought: bool = False


@dataclass(slots=True, eq=False)
class CausalLMRequest:
    """A request in a slot.

    Attributes:
        ids: of the prompt, and the tokens that were drawn before the slot was taken.
        states: of the prompt, as far as they are computed, until they are told.
    """

    prompt: CausalLMPrompt
    ids: NDArray[np.int64]
    states: "Tensor | None" = None

    @property
    def is_told(self) -> bool:
        """Whether states of its prompt will be told: with its first token."""
        return self.prompt.is_spoken and len(self.ids) == len(self.prompt.ids)

    @classmethod
    def of(cls, prompt: CausalLMPrompt, answer: Sequence[int]) -> "CausalLMRequest":
        """Begin a request, or go on after the tokens that it has drawn."""
        return cls(prompt, np.array((*prompt.ids, *answer), np.int64))
