"""Convolutions of joined columns by split products, see `antiphon.nn.kernels.split`.

A program computes some outputs of some columns of a row. Sums run over taps, then inputs, in the
same order for any number of rows. Columns are the left factor, which matrix instructions take from
registers: their parts do not go through shared memory.
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.split import split, unpacked_parts

_INPUTS = 32  # per iteration
_MANY_NUMBERS = 128 * 64 * 128
"""Results below which large tiles would leave multiprocessors idle."""


@dataclass(frozen=True, slots=True)
class SplitWeight:
    """Split factors of a convolution, ``[num_taps, num_outputs, num_inputs]`` in float16.

    Attributes:
        high: rounded factors.
    """

    high: Tensor
    low: Tensor
    dilation: int

    @classmethod
    def of(cls, weight: Tensor, dilation: int) -> "SplitWeight":
        """Split factors, f32 ``[num_outputs, num_inputs, num_taps]``."""
        high, low = (each.permute(2, 0, 1).contiguous() for each in split(weight))
        return cls(high, low, dilation)


def is_splittable(weight: Tensor) -> bool:
    """Return whether outputs and inputs, ``[num_outputs, num_inputs, ...]``, fit into tiles."""
    return weight.shape[0] % _INPUTS == 0 and weight.shape[1] % _INPUTS == 0


def split_conv(joined: Tensor, weight: SplitWeight) -> Tensor:
    """Convolve columns.

    Args:
        joined: f32 ``[num_rows, num_inputs, length]``, including preceding columns; or int32, both
            parts of each number, see `antiphon.nn.kernels.split.packed_parts`.

    Returns:
        f32 ``[num_rows, num_outputs, length - (num_taps - 1) * dilation]``.
    """
    num_taps, num_outputs, num_inputs = weight.high.shape
    num_rows, _, width = joined.shape
    joined = joined.contiguous()
    length = width - (num_taps - 1) * weight.dilation
    outputs, columns = _tile(num_rows * length, num_outputs)
    result = joined.new_empty(num_rows, num_outputs, length, dtype=torch.float32)
    is_early = overlaps(joined)
    _split_conv[(triton.cdiv(length, columns), num_outputs // outputs, num_rows)](
        joined, weight.high, weight.low, result, length, width, num_taps, weight.dilation,
        NUM_INPUTS=num_inputs, NUM_OUTPUTS=num_outputs, OUTPUTS=outputs, COLUMNS=columns,
        INPUTS=_INPUTS, PDL=is_early, num_warps=4, num_stages=3,
        launch_pdl=is_early,
    )  # fmt: skip
    return result


def _tile(num_columns: int, num_outputs: int) -> tuple[int, int]:
    """Return outputs and columns of a program."""
    if num_columns * num_outputs < _MANY_NUMBERS:
        return 32, 32
    return next(size for size in (128, 64, 32) if num_outputs % size == 0), 64


@triton.jit(do_not_specialize=["length", "width", "num_taps", "dilation"])
def _split_conv(
    joined, high, low, result, length, width, num_taps, dilation,
    NUM_INPUTS: tl.constexpr, NUM_OUTPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
    COLUMNS: tl.constexpr, INPUTS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    PARTS: tl.constexpr = NUM_INPUTS // INPUTS
    row = tl.program_id(2).to(tl.int64)
    outputs = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (columns < length)[:, None]
    source = joined + row * NUM_INPUTS * width
    total = tl.zeros((COLUMNS, OUTPUTS), tl.float32)
    for step in range(0, num_taps * PARTS):
        tap = step // PARTS
        inputs = (step % PARTS) * INPUTS + tl.arange(0, INPUTS)
        places = (tap * NUM_OUTPUTS + outputs)[None, :] * NUM_INPUTS + inputs[:, None]
        factor, rest = tl.load(high + places), tl.load(low + places)
        spots = source + inputs[None, :] * width + (columns + tap * dilation)[:, None]
        value, lower = unpacked_parts(tl.load(spots, mask=inside, other=0))
        total = tl.dot(value, rest, total)
        total = tl.dot(lower, factor, total)
        total = tl.dot(value, factor, total)
    spots = result + (row * NUM_OUTPUTS + outputs)[None, :] * length + columns[:, None]
    tl.store(spots, total, mask=inside)
