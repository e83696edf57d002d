"""Images to be edited: at which size they are read."""

import math
from typing import Any

import PIL.Image
from numpy.typing import NDArray

from antiphon.errors import InvalidRequestError
from antiphon.models.glm_image.config import CODE_PIXELS

MAX_SOURCES = 4
_MAX_AREA = 1024 * 1024
_MAX_RATIO = 4  # of the sides, as in the official processor


def source_size(width: int, height: int) -> tuple[int, int]:
    """Return width and height at which an image is read: whole codes, and not too many.

    At such a size the codes of an image and the tokens of the denoiser lie on each other.

    Raises:
        InvalidRequestError: it is too narrow.
    """
    if max(width, height) > _MAX_RATIO * min(width, height):
        raise InvalidRequestError(
            f"Invalid 'image': {width}x{height}. One side may be at most {_MAX_RATIO} times as long"
            " as the other.",
            param="image",
        )
    scale = min(1.0, math.sqrt(_MAX_AREA / (width * height)))
    return (
        max(round(width * scale / CODE_PIXELS), 1) * CODE_PIXELS,
        max(round(height * scale / CODE_PIXELS), 1) * CODE_PIXELS,
    )


def resized(image: NDArray[Any]) -> NDArray[Any]:
    """Return an image at the size at which it is read, ``[height, width, 3]`` of uint8.

    Raises:
        InvalidRequestError: it is too narrow.
    """
    import numpy as np

    opened = PIL.Image.fromarray(image).convert("RGB")
    size = source_size(opened.width, opened.height)
    if size != opened.size:
        opened = opened.resize(size, PIL.Image.Resampling.LANCZOS)
    return np.asarray(opened)
