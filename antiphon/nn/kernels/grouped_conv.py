"""Grouped convolutions over joined columns with Mish activation, in one launch."""

import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.snake import narrowed

_FEW, _MANY = 32, 64
"""Columns of a program; the smaller number where few programs would result."""
_MANY_PROGRAMS = 128


def grouped_mish(
    joined: Tensor, weight: Tensor, bias: Tensor, residual: Tensor | None = None
) -> Tensor:
    """Return ``mish(convolution + bias)``, and the residual added.

    Args:
        joined: ``[num_rows, num_taps - 1 + length, num_channels]``, half precision.
        weight: ``[num_taps, num_groups, group_inputs, group_outputs]``, half precision; group sizes
            are powers of two from 16 on.
        bias: f32 ``[num_channels]``.
        residual: f32 ``[num_rows, length, num_channels]``.

    Returns:
        Shape of ``residual``, and its type if there is one, else that of ``joined``.
    """
    num_taps, num_groups, width, _ = weight.shape
    num_rows, length = len(joined), joined.shape[1] - num_taps + 1
    assert joined.is_contiguous()
    assert weight.is_contiguous()
    assert residual is None or residual.is_contiguous()
    kind = joined.dtype if residual is None else residual.dtype
    result = joined.new_empty(num_rows, length, num_groups * width, dtype=kind)
    num_programs = num_rows * num_groups * triton.cdiv(length, _MANY)
    columns = _MANY if num_programs >= _MANY_PROGRAMS else _FEW
    is_early = overlaps(joined)
    _grouped_mish[(triton.cdiv(length, columns), num_groups, num_rows)](
        joined, weight, bias, residual, result, length,
        HAS_RESIDUAL=residual is not None, NUM_TAPS=num_taps, NUM_GROUPS=num_groups, WIDTH=width,
        COLUMNS=columns, PDL=is_early, num_warps=4, num_stages=4, launch_pdl=is_early,
    )  # fmt: skip
    return result


@triton.jit(do_not_specialize=["length"])
def _grouped_mish(
    joined, weight, bias, residual, result, length,
    HAS_RESIDUAL: tl.constexpr, NUM_TAPS: tl.constexpr, NUM_GROUPS: tl.constexpr,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, PDL: tl.constexpr,
):  # fmt: skip
    await_others(PDL)
    CHANNELS: tl.constexpr = NUM_GROUPS * WIDTH
    group, row = tl.program_id(1), tl.program_id(2).to(tl.int64)
    number = tl.arange(0, WIDTH)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (column < length)[:, None]
    source = joined + row * (length + NUM_TAPS - 1) * CHANNELS + group * WIDTH
    sources = source + column[:, None] * CHANNELS + number[None, :]
    factors = weight + group * (WIDTH * WIDTH) + number[:, None] * WIDTH + number[None, :]
    total = tl.zeros((COLUMNS, WIDTH), tl.float32)
    for tap in range(0, NUM_TAPS):
        value = tl.load(sources + tap * CHANNELS, mask=inside, other=0.0)
        factor = tl.load(factors + tap * (NUM_GROUPS * WIDTH * WIDTH))
        total = tl.dot(value, factor, total, input_precision="ieee")
    total += tl.load(bias + group * WIDTH + number)[None, :]
    # tanh(log(1 + exp(x))) is a rational function of exp(x), which is 1 from 20 on.
    power = tl.exp(tl.minimum(total, 20.0))
    power = power * (power + 2.0)
    total = total * (power / (power + 2.0))
    spots = (row * length + column)[:, None] * CHANNELS + group * WIDTH + number[None, :]
    if HAS_RESIDUAL:
        total += tl.load(residual + spots, mask=inside, other=0.0)
    tl.store(result + spots, narrowed(total, result.dtype.element_ty), mask=inside)
