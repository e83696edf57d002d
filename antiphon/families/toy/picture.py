"""Prompts shared by the toy's images and videos: a video is a picture of several frames."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.picture_types import DiffusionParameters, ImageRequest, VideoRequest
from antiphon.errors import InvalidRequestError

PATCH = 8
"""Pixels of a side that become one position of latents."""
PARAMETERS = DiffusionParameters(num_inference_steps=8, guidance_scale=4.0)

MAX_LETTERS = 1000
"""Of a prompt."""

Grid: TypeAlias = NDArray[np.float32]
"""Latents: ``[num_frames, height / 8, width / 8, 3]``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyPicture:
    """A completed request.

    Attributes:
        negative_prompt: description of what the picture must not show.
        width: width in pixels; a multiple of `PATCH`.
        height: height in pixels; a multiple of `PATCH`.
        num_frames: 1 of an image.
        fps: frames per second of a video; ``None``: an image.
        parameters: denoising parameters; all fields that the toy uses are set.
        images: input images; the first one is edited, or is a video's first frame.
    """

    prompt: str
    negative_prompt: str
    width: int
    height: int
    num_frames: int = 1
    fps: int | None = None
    parameters: DiffusionParameters = PARAMETERS
    num_previews: int = 0
    images: tuple[NDArray[np.uint8], ...] = ()
    mask: NDArray[np.uint8] | None = None

    @property
    def num_steps(self) -> int:
        assert self.parameters.num_inference_steps is not None
        return self.parameters.num_inference_steps

    @property
    def guidance_scale(self) -> float:
        assert self.parameters.guidance_scale is not None
        return self.parameters.guidance_scale

    @property
    def grid_shape(self) -> tuple[int, int, int, int]:
        return self.num_frames, self.height // PATCH, self.width // PATCH, 3


def check_letters(request: ImageRequest | VideoRequest) -> None:
    """Refuse texts that are too long; raises InvalidRequestError."""
    for param, text in (
        ("prompt", request.prompt),
        ("negative_prompt", request.negative_prompt or ""),
    ):
        if len(text) > MAX_LETTERS:
            raise InvalidRequestError(
                f"Invalid '{param}': {len(text)} letters; at most {MAX_LETTERS} are allowed.",
                param=param,
                code="string_above_max_length",
            )


def patches_of(pixels: NDArray[np.uint8], height: int, width: int) -> Grid:
    """Return the mean of each patch of an image, from -1 to 1: ``[height / 8, width / 8, ...]``.

    The image is brought to this size first.
    """
    rows = np.arange(height) * pixels.shape[0] // height
    columns = np.arange(width) * pixels.shape[1] // width
    sized = pixels[rows][:, columns].astype(np.float32) / 127.5 - 1
    patched = sized.reshape(height // PATCH, PATCH, width // PATCH, PATCH, *pixels.shape[2:])
    means: Grid = patched.mean(axis=(1, 3), dtype=np.float32)
    return means


def letters_on(embeddings: NDArray[np.float32], shape: Sequence[int]) -> Grid:
    """Lay letters out over a grid, ``[num_letters, 3]`` each; a frame begins one letter later."""
    num_frames, height, width, _ = shape
    positions = np.arange(height * width) + np.arange(num_frames)[:, np.newaxis]
    laid: Grid = embeddings[positions % len(embeddings)].reshape(shape)
    return laid
