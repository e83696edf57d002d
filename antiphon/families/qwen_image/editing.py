"""How checkpoints that change images read them; without torch."""

import math
from enum import StrEnum

from antiphon.diffusion.image_prompt import ImagePrompt

VAE_AREA = 1024 * 1024
"""Pixels that the VAE reads of an image, about."""
CONDITION_AREA = 384 * 384
"""Pixels that the text encoder reads of each image, where there may be several."""
_MULTIPLE = 32


class Variant(StrEnum):
    """What a checkpoint is for, by the pipeline of diffusers that it was saved by."""

    GENERATE = "QwenImagePipeline"
    EDIT = "QwenImageEditPipeline"
    EDIT_PLUS = "QwenImageEditPlusPipeline"

    @property
    def max_images(self) -> int:
        """Images that a request may bring."""
        return {Variant.GENERATE: 0, Variant.EDIT: 1, Variant.EDIT_PLUS: 4}[self]


def scaled_size(area: int, width: int, height: int) -> tuple[int, int]:
    """Return width and height of about ``area`` pixels, in the proportion of an image."""
    ratio = width / height
    scaled_width = math.sqrt(area * ratio)
    return (
        max(round(scaled_width / _MULTIPLE), 1) * _MULTIPLE,
        max(round(scaled_width / ratio / _MULTIPLE), 1) * _MULTIPLE,
    )


def reference_sizes(data: ImagePrompt) -> tuple[tuple[int, int], ...]:
    """Return width and height at which the VAE reads each image of a request."""
    return tuple(scaled_size(VAE_AREA, each.shape[1], each.shape[0]) for each in data.images)
