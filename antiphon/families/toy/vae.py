"""The toy's decoder of pictures: a patch of one colour for each position of the latents."""

from collections.abc import Generator

import numpy as np

from antiphon.contracts.family import LoadContext
from antiphon.contracts.picture_types import Image, Video
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents
from antiphon.families.toy.picture import PATCH, Grid


class ToyVae:
    """Decodes what the denoiser has made, and previews of it."""

    def __init__(self, context: LoadContext) -> None:
        """Nothing to load."""

    def generate(self, prompt: Prompt) -> Generator[Image | Video, None, None]:
        latents: Latents = prompt.conditioning
        grid: Grid = latents.data
        colours = np.clip((grid + 1) * 127.5, 0, 255).astype(np.uint8)
        frames = colours.repeat(PATCH, axis=1).repeat(PATCH, axis=2)
        if prompt.data.fps is not None:
            yield Video(frames, prompt.data.fps)
        else:
            yield Image(frames[0])

    def close(self) -> None:
        """Nothing to free."""
