"""The toy's images: a column of grey for each letter, with noise by seed."""

from collections.abc import Generator

import numpy as np

from antiphon.models.base import Prompt
from antiphon.models.spec import ImageCapabilities, LoadContext
from antiphon.types import DiffusionParameters, Image, ImageRequest

HEIGHT = 8
_MAX_NOISE = 16


class ToyImagePrompter:
    """Builds prompts of letters."""

    capabilities = ImageCapabilities(
        sample_request=ImageRequest("ready"),
        parameters=DiffusionParameters(),
        size_multiple=HEIGHT,
        default_size=(HEIGHT, HEIGHT),
    )

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def build(self, request: ImageRequest, seed: int) -> Prompt:
        """Build the prompt of one image."""
        return Prompt(data=request.prompt, num_tokens=len(request.prompt), seed=seed)


class ToyPainter:
    """Draws one image for each prompt."""

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def generate(self, prompt: Prompt) -> Generator[Image, None, None]:
        """Yield an image of as many columns as the prompt has letters."""
        greys = np.array([ord(letter) % (256 - _MAX_NOISE) for letter in prompt.data], np.uint8)
        noise = np.random.default_rng(prompt.seed).integers(
            _MAX_NOISE, size=(HEIGHT, len(greys)), dtype=np.uint8
        )
        yield Image((greys + noise)[..., np.newaxis])

    def close(self) -> None:
        """Nothing to free."""
