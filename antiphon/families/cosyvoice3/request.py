"""What the language model reads of a prompt, and what the host keeps of a request in a slot."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CosyVoice3Prompt:
    """What the model reads.

    Attributes:
        ids: rows of the joined embedding; speech begins after the last one.
    """

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CosyVoice3Request:
    """A request in a slot.

    Attributes:
        ids: of the prompt, and the tokens that were drawn before the slot was taken.
    """

    prompt: CosyVoice3Prompt
    ids: NDArray[np.int64]

    @classmethod
    def of(cls, prompt: CosyVoice3Prompt, made: Sequence[int]) -> "CosyVoice3Request":
        """Begin a request, or go on after the tokens that it has drawn."""
        return cls(prompt, np.array((*prompt.ids, *made), np.int64))
