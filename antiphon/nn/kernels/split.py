"""Float32 as a sum of two float16, whose products are those of matrix instructions.

Of float32's 24 bits 22 are left, fewer of numbers below 0.06, whose rest has no more than what
float16 has close to zero. Of the four products of two such sums three are summed up. That is three
times the arithmetic of float16, and a small part of what float32 takes without matrix instructions.
Larger numbers than float16 holds become its largest.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor


def split(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """Return a tensor rounded to float16, and what it lacks, so too."""
    largest = torch.finfo(torch.float16).max
    bounded = tensor.float().clamp(-largest, largest)
    high = bounded.half()
    return high, (bounded - high.float()).half()


@triton.jit
def parts_of(x) -> tuple[tl.tensor, tl.tensor]:
    """Return ``x``, float32, rounded to float16, and what it lacks, so too."""
    bounded = tl.minimum(tl.maximum(x, -65504.0), 65504.0)
    high = bounded.to(tl.float16)
    return high, (bounded - high.to(tl.float32)).to(tl.float16)


@triton.jit
def dot(first, second, total) -> tl.tensor:
    """Return ``total + first @ second``, factors in half precision or float32, both alike."""
    if first.dtype == tl.float32:
        high, low = parts_of(first)
        other, rest = parts_of(second)
        total = tl.dot(low, other, total)
        total = tl.dot(high, rest, total)
        total = tl.dot(high, other, total)
    else:
        total = tl.dot(first, second, total)
    return total
