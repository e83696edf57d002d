"""Latents as sequences: each square of 2x2 is a position, as in transformers that draw images."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor


def pack(latents: Tensor) -> Tensor:
    """Turn ``[B, C, height, width]`` into ``[B, height/2 * width/2, 4 * C]``."""
    batch, channels, height, width = latents.shape
    squares = latents.reshape(batch, channels, height // 2, 2, width // 2, 2)
    return squares.permute(0, 2, 4, 1, 3, 5).reshape(batch, -1, channels * 4)


def unpack(packed: Tensor, height: int, width: int) -> Tensor:
    """Turn ``[B, height/2 * width/2, 4 * C]`` into ``[B, C, height, width]``."""
    batch, _, channels = packed.shape
    squares = packed.reshape(batch, height // 2, width // 2, channels // 4, 2, 2)
    return squares.permute(0, 3, 1, 4, 2, 5).reshape(batch, channels // 4, height, width)


def dynamic_shift(num_positions: int, config: dict[str, float]) -> float:
    """Return the shift (mu) of a schedule that depends on how large an image is.

    Args:
        num_positions: length of the image's sequence.
        config: configuration of a diffusers scheduler; missing keys have the defaults of the
            pipelines.
    """
    low, high = config.get("base_image_seq_len", 256), config.get("max_image_seq_len", 4096)
    least, most = config.get("base_shift", 0.5), config.get("max_shift", 1.15)
    slope = (most - least) / (high - low)
    return num_positions * slope + (least - slope * low)


def even_sigmas(num_steps: int) -> NDArray[np.float64]:
    """Return noise levels from 1 down to ``1 / num_steps``, before a scheduler shifts them."""
    return np.linspace(1.0, 1 / num_steps, num_steps)
