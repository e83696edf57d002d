"""Bias, sum, snake and join between two streaming convolutions, in one launch.

Biases and branches are added, the sum is activated, and the preceding columns are prepended.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.snake import snake_of
from antiphon.nn.kernels.split import packed_parts
from antiphon.nn.layers import Snake

_MAX_BLOCK = 1024  # columns per program


@dataclass(frozen=True, slots=True)
class SnakeInput:
    """Input of a snake: ``columns + (branch + bias)``.

    Attributes:
        columns: f32 ``[num_rows, num_channels, length]``.
        branch: f32, shaped like ``columns``, or ``None``.
        bias: f32 ``[num_channels]``, or ``None``.
    """

    columns: Tensor
    branch: Tensor | None = None
    bias: Tensor | None = None


def snake_join(
    given: SnakeInput,
    before: Tensor | None,
    num_before: int,
    snake: Snake,
    *,
    packs: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Activate columns, append them to the preceding ones, and return the last ones separately.

    Args:
        given: parts of the columns.
        before: activated columns, ``[num_rows, num_channels, num_before]``; ``None``: zeros.
        num_before: number of preceding columns of a row.
        snake: activation of the sum.
        packs: whether activated columns, with those before, are int32 for
            `antiphon.nn.kernels.split_conv`.

    Returns:
        The sum, or the columns without a branch; activated columns, ``[num_rows, num_channels,
        num_before + length]``; and their last ``num_before``.
    """
    columns, branch, bias = given.columns.contiguous(), given.branch, given.bias
    num_rows, num_channels, length = columns.shape
    branch = None if branch is None else branch.contiguous()
    assert before is None or before.is_contiguous()
    sums = columns if branch is None else torch.empty_like(columns)
    kind = torch.int32 if packs else columns.dtype
    joined = columns.new_empty(num_rows, num_channels, num_before + length, dtype=kind)
    last = columns.new_empty(num_rows, num_channels, num_before, dtype=kind)
    block = min(_MAX_BLOCK, int(triton.next_power_of_2(num_before + length)))
    is_early = overlaps(columns)
    _snake_join[(num_rows * num_channels, triton.cdiv(num_before + length, block))](
        columns, branch, bias, before, snake.frequency, snake.amplitude, sums, joined, last,
        num_channels, length, num_before,
        HAS_BRANCH=branch is not None, HAS_BIAS=bias is not None, HAS_BEFORE=before is not None,
        BLOCK=block, PDL=is_early, num_warps=4, launch_pdl=is_early,
    )  # fmt: skip
    return sums, joined, last


@triton.jit(do_not_specialize=["length", "num_before"])
def _snake_join(
    columns, branch, bias, before, frequency, amplitude, sums, joined, last,
    num_channels, length, num_before,
    HAS_BRANCH: tl.constexpr, HAS_BIAS: tl.constexpr, HAS_BEFORE: tl.constexpr,
    BLOCK: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    channel = row % num_channels
    rate, size = tl.load(frequency + channel), tl.load(amplitude + channel)
    await_others(PDL)
    place = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside, column = place < num_before + length, place - num_before
    is_new = inside & (column >= 0)
    value = tl.load(columns + row * length + column, mask=is_new, other=0.0)
    if HAS_BRANCH:
        addend = tl.load(branch + row * length + column, mask=is_new, other=0.0)
        if HAS_BIAS:
            addend += tl.load(bias + channel)
        value += addend
        tl.store(sums + row * length + column, value, mask=is_new)
    elif HAS_BIAS:
        value += tl.load(bias + channel)
    value = tl.where(is_new, snake_of(value, rate, size), 0.0)
    if joined.dtype.element_ty == tl.int32:
        value = packed_parts(value)
    if HAS_BEFORE:
        kept = tl.load(before + row * num_before + place, mask=inside & (column < 0), other=0)
        value = tl.where(is_new, value, kept)
    tl.store(joined + row * (num_before + length) + place, value, mask=inside)
    spots = last + row * num_before + place - length
    tl.store(spots, value, mask=inside & (place >= length))
