"""The toy's text encoder: a colour for each letter."""

from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents


class ToyTextEncoder:
    """Yields the embeddings of a prompt and of its negative prompt, ``[num_letters, 3]`` each."""

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        picture = prompt.data
        yield Latents(
            {
                "prompt": _embedded(picture.prompt),
                "negative_prompt": _embedded(picture.negative_prompt),
            }
        )

    def close(self) -> None:
        """Nothing to free."""


def _embedded(text: str) -> NDArray[np.float32]:
    letters = np.array([*map(ord, text)] or [0], np.float32)
    return np.sin(letters[:, np.newaxis] * np.array([1, 2, 3], np.float32))
