"""Image sizes and variants of editing checkpoints, without torch."""

import math
from enum import StrEnum

from antiphon.diffusion.image_prompt import ImagePrompt

VAE_AREA = 1024 * 1024
"""Approximate pixels of an image for the VAE."""
CONDITION_AREA = 384 * 384
"""Approximate pixels of each image for the text encoder, if a request may have several."""
_MULTIPLE = 32


class Variant(StrEnum):
    """Purpose of a checkpoint, by the pipeline of diffusers that saved it."""

    GENERATE = "QwenImagePipeline"
    EDIT = "QwenImageEditPipeline"
    EDIT_PLUS = "QwenImageEditPlusPipeline"

    @property
    def max_images(self) -> int:
        """Maximum number of images in a request."""
        return {Variant.GENERATE: 0, Variant.EDIT: 1, Variant.EDIT_PLUS: 4}[self]


def scaled_size(area: int, width: int, height: int) -> tuple[int, int]:
    """Return width and height of about ``area`` pixels, with an image's aspect ratio."""
    ratio = width / height
    scaled_width = math.sqrt(area * ratio)
    return (
        max(round(scaled_width / _MULTIPLE), 1) * _MULTIPLE,
        max(round(scaled_width / ratio / _MULTIPLE), 1) * _MULTIPLE,
    )


def reference_sizes(data: ImagePrompt) -> tuple[tuple[int, int], ...]:
    """Return width and height of each image of a request for the VAE."""
    return tuple(scaled_size(VAE_AREA, each.shape[1], each.shape[0]) for each in data.images)
