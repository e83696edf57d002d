"""Residual unit in one kernel: dilated convolution, snake, pointwise convolution, sum, snake.

The activated result of the first convolution never leaves the multiprocessor: a program has all
channels of its columns, in two parts, since 96 and 192 are sums of two powers of two.
"""

from dataclasses import dataclass, replace

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.causal_conv import ConvWeights, KernelConfig
from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.snake import narrowed, snake_of
from antiphon.nn.kernels.stream_columns import (
    KEPT_CHANNELS,
    Rows,
    column_sources,
    columns_of,
    keep_columns,
)
from antiphon.nn.layers import Snake

_MIN_PART = 16  # minimum channels of a matrix instruction
_MAX_PART = 128
_MIN_ROW_PART = 64


@dataclass(frozen=True, slots=True)
class UnitWeights:
    """Two convolutions with a snake between them; the second is one tap wide: see `unit_layout`."""

    dilated: ConvWeights
    snake: Snake
    pointwise: ConvWeights


def is_fusible(num_channels: int) -> bool:
    """Return whether this many channels are two powers of two that fit into a program."""
    large = triton.next_power_of_2(num_channels) // 2
    small = num_channels - large
    is_power = small & (small - 1) == 0
    return bool(_MIN_PART <= small < large <= _MAX_PART and is_power)


def unit_layout(pointwise: ConvWeights) -> ConvWeights:
    """Lay out the weight of a unit's second convolution for the kernel.

    For rows of less than 64 numbers, Triton 3.6 stages a factor wrongly outside a
    loop: such weights are stored column-major, where rows are inputs.
    """
    width = pointwise.num_out
    if not is_fusible(width) or width - triton.next_power_of_2(width) // 2 >= _MIN_ROW_PART:
        return pointwise
    return replace(pointwise, weight=pointwise.weight.T.contiguous().T)


def residual_unit(
    active: Tensor,
    residual: Tensor,
    unit: UnitWeights,
    rows: Rows,
    config: KernelConfig,
    *,
    snake: Snake,
    keeps_sum: bool = True,
    sum_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Convolve twice, add and activate; store the last columns for the next call.

    Args:
        active: input of the unit's first convolution, ``[num_frames * rate, channels]``.
        residual: input of the snake that made ``active``, of the same shape, in its type or
            ``sum_dtype``.
        rows: rows of ``active``.
        config: tiling; its ``outputs`` are ignored.
        snake: activation of the sum.
        keeps_sum: whether the sum itself is returned too.
        sum_dtype: type of that sum; ``None``: the type of ``active``.

    Returns:
        The sum and the activated sum; the latter twice if the sum is not wanted.
    """
    num_columns, width = active.shape
    assert active.is_contiguous()
    assert residual.is_contiguous()
    assert is_fusible(width)
    following = torch.empty_like(active)
    result = torch.empty_like(active, dtype=sum_dtype) if keeps_sum else following
    large = triton.next_power_of_2(width) // 2
    num_tiles = triton.cdiv(num_columns, config.columns)
    num_keepers = rows.num_keepers(width)
    dilated, pointwise = unit.dilated, unit.pointwise
    is_early = overlaps(active)
    _residual_unit[(num_tiles + num_keepers,)](
        active, residual, rows.memory, rows.table, dilated.weight, dilated.bias,
        unit.snake.frequency, unit.snake.amplitude, pointwise.weight, pointwise.bias,
        snake.frequency, snake.amplitude, result, following,
        num_columns, num_columns // rows.num_frames, rows.table.stride(0), rows.memory.stride(0),
        dilated.offset,
        NUM_TAPS=dilated.num_taps, DILATION=dilated.dilation,
        BY_INPUT=pointwise.weight.stride(0), BY_OUTPUT=pointwise.weight.stride(1),
        LARGE=large, SMALL=width - large, KEEPS_SUM=keeps_sum,
        COLUMNS=config.columns, INPUTS=min(config.inputs, width - large), KEPT=KEPT_CHANNELS,
        OVERLAPS=is_early,
        launch_pdl=is_early, num_warps=config.num_warps, num_stages=config.num_stages,
    )  # fmt: skip
    return result, following


@triton.jit
def _end(
    total, residual, result, following, columns, is_column, channels, bias, frequency, amplitude,
    WIDTH: tl.constexpr, KEEPS_SUM: tl.constexpr,
):  # fmt: skip
    spots = columns.to(tl.int64)[:, None] * WIDTH + channels[None, :]
    inside = is_column[:, None]
    total += tl.load(bias + channels)[None, :]
    total += tl.load(residual + spots, mask=inside, other=0.0).to(tl.float32)
    if KEEPS_SUM:
        tl.store(result + spots, narrowed(total, result.dtype.element_ty), mask=inside)
    rates, sizes = tl.load(frequency + channels), tl.load(amplitude + channels)
    total = snake_of(total, rates[None, :], sizes[None, :])
    tl.store(following + spots, narrowed(total, following.dtype.element_ty), mask=inside)


@triton.jit
def _between(total, channels, bias, frequency, amplitude, dtype: tl.constexpr):
    total += tl.load(bias + channels)[None, :]
    rates, sizes = tl.load(frequency + channels), tl.load(amplitude + channels)
    return narrowed(snake_of(total, rates[None, :], sizes[None, :]), dtype)


@triton.jit
def _multiply(
    active, memory, table, dilated, columns, is_column, rate, size, row_size, offset, low, high,
    NUM_TAPS: tl.constexpr, DILATION: tl.constexpr, LARGE: tl.constexpr, SMALL: tl.constexpr,
    COLUMNS: tl.constexpr, INPUTS: tl.constexpr,
):  # fmt: skip
    """Return the sums of the dilated convolution: lower channels, upper channels."""
    BEFORE: tl.constexpr = (NUM_TAPS - 1) * DILATION
    WIDTH: tl.constexpr = LARGE + SMALL
    NUM_STEPS: tl.constexpr = WIDTH // INPUTS
    inputs = tl.arange(0, INPUTS)
    present, past, place = column_sources(
        active, memory, table, columns, rate, size, row_size, offset, WIDTH, BEFORE
    )
    present, past = present[:, None] + inputs[None, :], past[:, None] + inputs[None, :]
    place = place[:, None] + tl.zeros((1, INPUTS), tl.int32)  # no layout conversion in the loop
    lower = tl.zeros((COLUMNS, LARGE), tl.float32)
    upper = tl.zeros((COLUMNS, SMALL), tl.float32)
    factors = dilated + inputs[:, None] * WIDTH
    for step in range(NUM_TAPS * NUM_STEPS):
        tap = step // NUM_STEPS
        first = (step % NUM_STEPS) * INPUTS
        shift = (NUM_TAPS - 1 - tap) * DILATION
        places = tl.where(place >= shift, present, past) + (first - shift * WIDTH)
        value = tl.load(places, mask=is_column[:, None], other=0.0)
        factor_places = factors + step * INPUTS * WIDTH
        lower = tl.dot(value, tl.load(factor_places + low[None, :]), lower)
        upper = tl.dot(value, tl.load(factor_places + high[None, :]), upper)
    return lower, upper


@triton.jit(do_not_specialize=["num_columns", "rate"])
def _residual_unit(
    active, residual, memory, table, dilated, dilated_bias, frequency, amplitude,
    pointwise, pointwise_bias, next_frequency, next_amplitude, result, following,
    num_columns, rate, size, row_size, offset,
    NUM_TAPS: tl.constexpr, DILATION: tl.constexpr, BY_INPUT: tl.constexpr, BY_OUTPUT: tl.constexpr,
    LARGE: tl.constexpr, SMALL: tl.constexpr, KEEPS_SUM: tl.constexpr,
    COLUMNS: tl.constexpr, INPUTS: tl.constexpr, KEPT: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    WIDTH: tl.constexpr = LARGE + SMALL
    program = tl.program_id(0)
    num_tiles = tl.cdiv(num_columns, COLUMNS)
    if program >= num_tiles:
        keep_columns(
            active, memory, table, program - num_tiles, tl.num_programs(0) - num_tiles,
            rate, size, row_size, offset, WIDTH, (NUM_TAPS - 1) * DILATION, KEPT,
        )  # fmt: skip
    else:
        columns, is_column = columns_of(program, num_columns, COLUMNS)
        low, high = tl.arange(0, LARGE), LARGE + tl.arange(0, SMALL)
        lower, upper = _multiply(
            active, memory, table, dilated, columns, is_column, rate, size, row_size, offset,
            low, high, NUM_TAPS, DILATION, LARGE, SMALL, COLUMNS, INPUTS,
        )  # fmt: skip
        dtype: tl.constexpr = active.dtype.element_ty
        first_low = _between(lower, low, dilated_bias, frequency, amplitude, dtype)
        first_high = _between(upper, high, dilated_bias, frequency, amplitude, dtype)
        from_low = pointwise + low[:, None] * BY_INPUT
        from_high = pointwise + high[:, None] * BY_INPUT
        to_low, to_high = low[None, :] * BY_OUTPUT, high[None, :] * BY_OUTPUT
        lower = tl.dot(first_low, tl.load(from_low + to_low))
        lower = tl.dot(first_high, tl.load(from_high + to_low), lower)
        upper = tl.dot(first_low, tl.load(from_low + to_high))
        upper = tl.dot(first_high, tl.load(from_high + to_high), upper)
        _end(
            lower, residual, result, following, columns, is_column, low,
            pointwise_bias, next_frequency, next_amplitude, WIDTH, KEEPS_SUM,
        )  # fmt: skip
        _end(
            upper, residual, result, following, columns, is_column, high,
            pointwise_bias, next_frequency, next_amplitude, WIDTH, KEEPS_SUM,
        )  # fmt: skip
