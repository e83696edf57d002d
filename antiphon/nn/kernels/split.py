"""Float32 as a sum of two float16, multiplied by matrix instructions.

Of float32's 24 bits 22 remain, fewer for numbers below 0.06, whose remainder is limited by
float16's precision near zero. Of the four products of two such sums three are added. That is three
times the arithmetic of float16, and a small part of the time of float32 without matrix
instructions. Numbers beyond float16's range are clamped.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


def split(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor rounded to float16, and the remainder in float16."""
    largest = torch.finfo(torch.float16).max
    bounded = tensor.float().clamp(-largest, largest)
    high = bounded.half()
    return high, (bounded - high.float()).half()


@triton.jit
def parts_of(x) -> tuple[tl.tensor, tl.tensor]:
    """Return ``x``, float32, rounded to float16, and the remainder in float16."""
    bounded = tl.minimum(tl.maximum(x, -65504.0), 65504.0)
    high = bounded.to(tl.float16)
    return high, (bounded - high.to(tl.float32)).to(tl.float16)


@triton.jit
def packed_parts(x) -> tl.tensor:
    """Return both parts of ``x``, float32, in one int32."""
    high, low = parts_of(x)
    upper = high.to(tl.int16, bitcast=True).to(tl.int32) << 16
    return upper | (low.to(tl.int16, bitcast=True).to(tl.int32) & 0xFFFF)


@triton.jit
def unpacked_parts(x) -> tuple[tl.tensor, tl.tensor]:
    """Return the parts of a number from `packed_parts`; those of ``x`` itself if it is float32."""
    if x.dtype == tl.float32:
        high, low = parts_of(x)
    else:
        high = (x >> 16).to(tl.int16).to(tl.float16, bitcast=True)
        low = x.to(tl.int16).to(tl.float16, bitcast=True)
    return high, low


@triton.jit
def dot(first, second, total) -> tl.tensor:
    """Return ``total + first @ second``, both factors in half precision or both in float32."""
    if first.dtype == tl.float32:
        high, low = parts_of(first)
        other, rest = parts_of(second)
        total = tl.dot(low, other, total)
        total = tl.dot(high, rest, total)
        total = tl.dot(high, other, total)
    else:
        total = tl.dot(first, second, total)
    return total
