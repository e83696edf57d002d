"""Images to be edited: at which size they are read."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
from numpy.typing import NDArray

from antiphon.errors import InvalidRequestError
from antiphon.families.glm_image.config import CODE_PIXELS

MAX_SOURCES = 4
_MAX_AREA = 1024 * 1024
_MAX_RATIO = 4  # of the sides, as in the official processor


@dataclass(frozen=True, slots=True)
class SourceSizes:
    """The sizes at which images are read: whole codes, and not too many.

    At such a size the official processor leaves an image as it is, and its codes and the tokens of
    the denoiser lie on each other.

    Attributes:
        min_side: shortest side of an image, in pixels.
        max_side: longest side of an image, in pixels.
    """

    min_side: int
    max_side: int

    @classmethod
    def read(cls, folder: Path) -> "SourceSizes":
        """Read the bounds that a checkpoint's processor has."""
        from transformers import GlmImageImageProcessorPil

        kind: Any = GlmImageImageProcessorPil
        size = kind.from_pretrained(str(folder), local_files_only=True).size
        shortest, longest = math.sqrt(size["shortest_edge"]), math.sqrt(size["longest_edge"])
        return cls(
            math.ceil(shortest / CODE_PIXELS) * CODE_PIXELS,
            int(longest / CODE_PIXELS) * CODE_PIXELS,
        )

    def of(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height at which an image is read; raises InvalidRequestError."""
        if max(width, height) > _MAX_RATIO * min(width, height):
            raise InvalidRequestError(
                f"Invalid 'image': {width}x{height}. One side may be at most {_MAX_RATIO} times as"
                " long as the other.",
                param="image",
            )
        scale = min(1.0, math.sqrt(_MAX_AREA / (width * height)))
        scale = max(scale, self.min_side / min(width, height))

        def whole(side: int) -> int:
            near = round(side * scale / CODE_PIXELS) * CODE_PIXELS
            return min(max(near, self.min_side), self.max_side)

        return whole(width), whole(height)

    def resized(self, image: NDArray[Any]) -> NDArray[Any]:
        """Return an image at the size at which it is read, ``[height, width, 3]`` of uint8.

        Raises:
            InvalidRequestError: it is too narrow.
        """
        opened = PIL.Image.fromarray(image).convert("RGB")
        size = self.of(opened.width, opened.height)
        if size != opened.size:
            opened = opened.resize(size, PIL.Image.Resampling.LANCZOS)
        return np.asarray(opened)
