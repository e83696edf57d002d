"""Instance norm with style modulation (AdaIN, arXiv 1703.06868) of padded rows, activated.

This is one launch between two convolutions of a vocoder. A program norms one channel of one row:
its columns are read three times, but only once from device memory.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.snake import snake_of

_MAX_BLOCK = 4096


def styled_norm(
    x: Tensor,
    styled: Tensor,
    affine: tuple[Tensor, Tensor],
    columns: Tensor,
    alpha: Tensor | None,
    *,
    epsilon: float,
    slope: float,
) -> Tensor:
    """Return ``act((1 + gain) * (norm(x) * weight + bias) + shift)``, zero-padded.

    Args:
        x: f32 ``[B, num_channels, t]``.
        styled: gains, then shifts, f32 ``[B, 2 * num_channels]``.
        affine: weight and bias of the norm, f32 ``[num_channels]``.
        columns: number of a row's own columns, the first ones, int64 ``[B]``.
        alpha: factor of Snake per channel, f32; ``None``: the activation is a leaky ReLU.
        slope: slope of the leaky ReLU.
    """
    x, styled = x.contiguous(), styled.contiguous()
    num_rows, num_channels, width = x.shape
    result = torch.empty_like(x)
    block = min(triton.next_power_of_2(width), _MAX_BLOCK)
    _styled_norm[(num_channels, num_rows)](
        x, styled, *affine, columns, alpha, result, num_channels, width, epsilon, slope,
        IS_SNAKE=alpha is not None, BLOCK=block, num_warps=max(1, min(8, block // 256)),
    )  # fmt: skip
    return result


@triton.jit
def _styled_norm(
    x, styled, weight, bias, columns, alpha, result, num_channels, width, epsilon, slope,
    IS_SNAKE: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    channel = tl.program_id(0)
    row = tl.program_id(1)
    num_own = tl.load(columns + row).to(tl.int32)
    start = (row.to(tl.int64) * num_channels + channel) * width
    block = tl.arange(0, BLOCK)
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, num_own, BLOCK):
        place = first + block
        total += tl.load(x + start + place, mask=place < num_own, other=0.0)
    count = tl.maximum(num_own, 1).to(tl.float32)
    mean = tl.sum(total, axis=0) / count
    total = tl.zeros([BLOCK], tl.float32)
    for first in range(0, num_own, BLOCK):
        place = first + block
        value = tl.load(x + start + place, mask=place < num_own, other=0.0) - mean
        total += tl.where(place < num_own, value * value, 0.0)
    scale = tl.rsqrt(tl.sum(total, axis=0) / count + epsilon)
    gain = 1.0 + tl.load(styled + row * 2 * num_channels + channel)
    shift = tl.load(styled + (row * 2 + 1) * num_channels + channel)
    scale *= tl.load(weight + channel) * gain
    shift += tl.load(bias + channel) * gain
    for first in range(0, width, BLOCK):
        place = first + block
        value = tl.load(x + start + place, mask=place < num_own, other=0.0)
        value = (value - mean) * scale + shift
        if IS_SNAKE:
            frequency = tl.load(alpha + channel)
            value = snake_of(value, frequency, 1.0 / frequency)
        else:
            value = tl.where(value > 0, value, value * slope)
        value = tl.where(place < num_own, value, 0.0)
        tl.store(result + start + place, value, mask=place < width)
