"""Tensors on their way between stages: as arrays of float32, which holds bfloat16 exactly."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor


def to_array(tensor: Tensor) -> NDArray[Any]:
    """Return a tensor's values on the host; those of floating point as float32."""
    if tensor.is_floating_point():
        tensor = tensor.float()
    return tensor.detach().cpu().numpy()


def to_arrays(tensors: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    return {name: to_array(tensor) for name, tensor in tensors.items()}


def to_tensor(array: NDArray[Any], device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a copy on a device; numbers that are not of floating point keep their type."""
    tensor = torch.tensor(array)
    return tensor.to(device, dtype if tensor.is_floating_point() else None)


def to_tensors(
    arrays: Mapping[str, NDArray[Any]], device: torch.device, dtype: torch.dtype
) -> dict[str, Tensor]:
    return {name: to_tensor(array, device, dtype) for name, array in arrays.items()}


def to_pixels(values: Tensor) -> NDArray[Any]:
    """Return pictures of a VAE as pixels, rounded as diffusers' `VaeImageProcessor` does.

    Args:
        values: values in about [-1, 1], shape ``[..., channels, height, width]``.

    Returns:
        Of uint8, shape ``[..., height, width, channels]``.
    """
    shown = (values * 0.5 + 0.5).clamp(0, 1).float()
    return (shown * 255).round().to(torch.uint8).movedim(-3, -1).contiguous().cpu().numpy()
