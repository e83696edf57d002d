"""Prompt of the language model, and host-side state of a request in a slot."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CosyVoice3Prompt:
    """Input of the language model.

    Attributes:
        ids: rows of the joint embedding; speech begins after the last one.
    """

    ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CosyVoice3Request:
    """Host-side state of a request in a slot.

    Attributes:
        ids: ids of the prompt, followed by the tokens drawn before the slot was assigned.
    """

    prompt: CosyVoice3Prompt
    ids: NDArray[np.int64]

    @classmethod
    def of(cls, prompt: CosyVoice3Prompt, made: Sequence[int]) -> "CosyVoice3Request":
        """Start a request, or resume it after the tokens that it has drawn."""
        return cls(prompt, np.array((*prompt.ids, *made), np.int64))
