"""Causal convolutions of many streams as matrix products that read their state in place.

Columns are laid out as in `antiphon.nn.kernels.stream_columns`.

For any tiling of a product, a sum runs over taps and channels in the same order with the same
instructions: a row's result is bit-identical in any batch and grouping. Addends are added at the
end of a sum, unless the whole sum is one step, see `_inputs_of`.

With many columns, programs take the kernel's place on Hopper (`antiphon.nn.cuda.wide_conv`).

Float32 factors are stored as sums of two float16, and float32 columns are split when read (see
`antiphon.nn.kernels.split`).
"""

from dataclasses import dataclass

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.cuda.wide_conv import wide_conv
from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.shared_memory import max_shared_bytes, stages_within
from antiphon.nn.kernels.snake import narrowed, snake_of
from antiphon.nn.kernels.split import parts_of
from antiphon.nn.kernels.stream_columns import (
    KEPT_CHANNELS,
    Rows,
    column_sources,
    columns_of,
    keep_columns,
)
from antiphon.nn.layers import Snake

_MIN_WIDTH = 16  # minimum width of a matrix instruction
_SPLIT_INPUTS, _SPLIT_STAGES = 64, 5
"""Tile of split products: the parts of these inputs are multiplied in turn, so their number decides
the order of sums, and is the same for all numbers of columns."""
_WARP_COLUMNS = 16  # of split products, for which a warp needs more registers


@dataclass(frozen=True, slots=True)
class ConvWeights:
    """Convolution over the current and past columns.

    Attributes:
        weight: ``[num_taps * num_in, num_out]``, oldest tap first.
        bias: float32 ``[num_out]``.
        num_taps: columns per output.
        dilation: distance of two taps.
        offset: offset of the two copies of preceding columns in a slot's memory.
        rest: rounding error of ``weight`` in float16, for float32 columns; ``None``: not split.
    """

    weight: Tensor
    bias: Tensor | None
    num_taps: int = 1
    dilation: int = 1
    offset: int = 0
    rest: Tensor | None = None

    @property
    def num_before(self) -> int:
        return (self.num_taps - 1) * self.dilation

    @property
    def num_in(self) -> int:
        return self.weight.shape[0] // self.num_taps

    @property
    def num_out(self) -> int:
        return self.weight.shape[1]


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """Tiling of a product, and the resources of its programs."""

    columns: int
    outputs: int
    inputs: int
    num_warps: int
    num_stages: int


def causal_conv(
    x: Tensor,
    conv: ConvWeights,
    rows: Rows,
    config: KernelConfig,
    *,
    activation: str = "",
    norm_epsilon: float | None = None,
    residual: Tensor | None = None,
    snake: Snake | None = None,
    keeps_sum: bool = True,
    sum_dtype: torch.dtype | None = None,
) -> tuple[Tensor, Tensor]:
    """Convolve, add and activate; store the last columns for the next call.

    Args:
        x: ``[num_frames * rate, num_in]``.
        rows: rows of ``x``.
        config: tiling.
        activation: activation of the result: "", "gelu", or "gate": ``silu(first) * second`` of
            neighbouring outputs.
        norm_epsilon: epsilon of an RMS norm of each column before the product; ``None``: no norm.
        residual: addend of the result's shape.
        snake: activation of the sum.
        keeps_sum: whether the sum itself is returned beside its activation.
        sum_dtype: type of that sum, or of the result if there is no activation of it; ``None``: the
            type of ``x``.

    Returns:
        The sum and the activated sum, ``[num_frames * rate, num_out]`` (half of that with "gate");
        the other one replaces one that is not wanted.
    """
    num_columns, num_in = x.shape
    assert x.is_contiguous()
    assert num_in == conv.num_in
    is_plain = not activation and norm_epsilon is None and sum_dtype in (None, x.dtype)
    if is_plain and (both := _by_program(x, conv, rows, residual, snake, keeps_sum=keeps_sum)):
        return both
    width = conv.num_out // 2 if activation == "gate" else conv.num_out
    active = result = x.new_empty(num_columns, width, dtype=None if snake else sum_dtype)
    if snake is not None and keeps_sum:
        result = torch.empty_like(active, dtype=sum_dtype)
    num_tiles = triton.cdiv(num_columns, config.columns) * triton.cdiv(conv.num_out, config.outputs)
    num_keepers = rows.num_keepers(num_in) if conv.num_before else 0
    is_early, fitted = overlaps(x), _fitted(config, conv, x)
    frequency, amplitude = (None, None) if snake is None else (snake.frequency, snake.amplitude)
    _causal_conv[(num_tiles + num_keepers,)](
        x, rows.memory, rows.table, conv.weight, conv.rest, conv.bias, residual,
        frequency, amplitude, result, active,
        num_columns, num_columns // rows.num_frames, rows.table.stride(0), rows.memory.stride(0),
        conv.offset, norm_epsilon or 0.0,
        NUM_IN=num_in, NUM_OUT=conv.num_out, NUM_TAPS=conv.num_taps, DILATION=conv.dilation,
        ACTIVATION=activation, HAS_NORM=norm_epsilon is not None, HAS_BIAS=conv.bias is not None,
        HAS_RESIDUAL=residual is not None, HAS_SNAKE=snake is not None,
        KEEPS_SUM=keeps_sum or snake is None, IS_SPLIT=conv.rest is not None,
        COLUMNS=config.columns, OUTPUTS=config.outputs, INPUTS=fitted.inputs,
        KEPT=KEPT_CHANNELS, OVERLAPS=is_early,
        launch_pdl=is_early, num_warps=fitted.num_warps, num_stages=fitted.num_stages,
    )  # fmt: skip
    return result, active


def _by_program(
    x: Tensor,
    conv: ConvWeights,
    rows: Rows,
    residual: Tensor | None,
    snake: Snake | None,
    *,
    keeps_sum: bool,
) -> tuple[Tensor, Tensor] | None:
    if snake is None or conv.bias is None or conv.rest is not None:
        return None
    factors, taps = (conv.weight, conv.bias, snake), (conv.num_taps, conv.dilation, conv.offset)
    return wide_conv(x, factors, taps, rows, residual, keeps_sum=keeps_sum)


def _fitted(config: KernelConfig, conv: ConvWeights, x: Tensor) -> KernelConfig:
    inputs, num_warps, num_stages = config.inputs, config.num_warps, config.num_stages
    if conv.rest is not None:
        inputs, num_stages = _SPLIT_INPUTS, _SPLIT_STAGES
        num_warps = max(num_warps, config.columns // _WARP_COLUMNS)
    inputs = _inputs_of(inputs, conv.num_in, conv.num_taps)
    block_bytes = inputs * (config.columns + config.outputs) * x.itemsize
    num_stages = stages_within(num_stages, block_bytes, max_shared_bytes(x))
    return KernelConfig(config.columns, config.outputs, inputs, num_warps, num_stages)


def _inputs_of(wanted: int, num_in: int, num_taps: int) -> int:
    """Return the number of inputs multiplied at a time: if possible, a divisor of all.

    It is at most half of them, so that no sum has one step in one config and several in
    another: Triton initialises a sum of one step with its addend, which rounds differently.
    """
    largest_divisor = num_in & -num_in  # a power of two
    if largest_divisor >= _MIN_WIDTH:
        inputs = min(wanted, largest_divisor)
    else:
        inputs = min(wanted, max(_MIN_WIDTH, int(triton.next_power_of_2(num_in))))
    is_one_step = num_taps == 1 and inputs >= num_in
    return max(_MIN_WIDTH, inputs // 2) if is_one_step else inputs


@triton.jit
def _factors(
    places, inputs, outputs,
    NUM_IN: tl.constexpr, NUM_OUT: tl.constexpr, INPUTS: tl.constexpr, OUTPUTS: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Load factors ``[INPUTS, OUTPUTS]``, zero-padded."""
    if NUM_IN % INPUTS == 0:
        if NUM_OUT % OUTPUTS == 0:
            factor = tl.load(places)
        else:
            factor = tl.load(places, mask=(outputs < NUM_OUT)[None, :], other=0.0)
    else:
        inside = (inputs < NUM_IN)[:, None] & (outputs < NUM_OUT)[None, :]
        factor = tl.load(places, mask=inside, other=0.0)
    return factor


@triton.jit
def _multiply(
    x, memory, table, weight, rest, columns, is_column, outputs, rate, size, row_size, offset,
    epsilon,
    NUM_IN: tl.constexpr, NUM_OUT: tl.constexpr, NUM_TAPS: tl.constexpr, DILATION: tl.constexpr,
    HAS_NORM: tl.constexpr, COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr,
    IS_SPLIT: tl.constexpr,
):  # fmt: skip
    """Return the sums over taps and inputs, optionally of normed columns."""
    BEFORE: tl.constexpr = (NUM_TAPS - 1) * DILATION
    NUM_STEPS: tl.constexpr = (NUM_IN + INPUTS - 1) // INPUTS
    inputs = tl.arange(0, INPUTS)
    present, past, place = column_sources(
        x, memory, table, columns, rate, size, row_size, offset, NUM_IN, BEFORE
    )
    present, past = present[:, None] + inputs[None, :], past[:, None] + inputs[None, :]
    place = place[:, None] + tl.zeros((1, INPUTS), tl.int32)  # no layout conversion in the loop
    total = tl.zeros((COLUMNS, OUTPUTS), tl.float32)
    squares = tl.zeros((COLUMNS,), tl.float32)
    factors = weight + inputs[:, None] * NUM_OUT + outputs[None, :]
    if IS_SPLIT:
        rests = rest + inputs[:, None] * NUM_OUT + outputs[None, :]
    for step in range(NUM_TAPS * NUM_STEPS):
        tap = step // NUM_STEPS
        first = (step % NUM_STEPS) * INPUTS
        shift = (NUM_TAPS - 1 - tap) * DILATION
        places = present + first
        if BEFORE > 0:
            places = tl.where(place >= shift, present, past) + (first - shift * NUM_IN)
        ahead = (tap * NUM_IN + first) * NUM_OUT
        is_value = is_column[:, None]
        if NUM_IN % INPUTS != 0:
            is_value &= (first + inputs < NUM_IN)[None, :]
        value = tl.load(places, mask=is_value, other=0.0)
        if HAS_NORM:
            # Selected again, it is multiplied from registers. Of a factor in shared memory that
            # threads load too, Triton overwrites one copy while Hopper's product still reads it.
            value = tl.where(is_value, value, 0.0)
        there = first + inputs
        factor = _factors(factors + ahead, there, outputs, NUM_IN, NUM_OUT, INPUTS, OUTPUTS)
        if IS_SPLIT:
            small = _factors(rests + ahead, there, outputs, NUM_IN, NUM_OUT, INPUTS, OUTPUTS)
            high, low = parts_of(value)
            total = tl.dot(low, factor, total)
            total = tl.dot(high, small, total)
            total = tl.dot(high, factor, total)
        else:
            total = tl.dot(value, factor, total)
        if HAS_NORM:
            wide = value.to(tl.float32)
            squares += tl.sum(wide * wide, axis=1)
    if HAS_NORM:
        total *= tl.rsqrt(squares / NUM_IN + epsilon)[:, None]
    return total


@triton.jit(do_not_specialize=["num_columns", "rate"])
def _causal_conv(
    x, memory, table, weight, rest, bias, residual, frequency, amplitude, result, active,
    num_columns, rate, size, row_size, offset, epsilon,
    NUM_IN: tl.constexpr, NUM_OUT: tl.constexpr, NUM_TAPS: tl.constexpr, DILATION: tl.constexpr,
    ACTIVATION: tl.constexpr, HAS_NORM: tl.constexpr, HAS_BIAS: tl.constexpr,
    HAS_RESIDUAL: tl.constexpr, HAS_SNAKE: tl.constexpr, KEEPS_SUM: tl.constexpr,
    IS_SPLIT: tl.constexpr,
    COLUMNS: tl.constexpr, OUTPUTS: tl.constexpr, INPUTS: tl.constexpr, KEPT: tl.constexpr,
    OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    BEFORE: tl.constexpr = (NUM_TAPS - 1) * DILATION
    NUM_PARTS: tl.constexpr = (NUM_OUT + OUTPUTS - 1) // OUTPUTS
    IS_GATE: tl.constexpr = ACTIVATION == "gate"
    WIDTH: tl.constexpr = NUM_OUT // 2 if IS_GATE else NUM_OUT
    SPAN: tl.constexpr = OUTPUTS // 2 if IS_GATE else OUTPUTS
    program = tl.program_id(0)
    num_tiles = tl.cdiv(num_columns, COLUMNS) * NUM_PARTS
    if program >= num_tiles:
        if BEFORE > 0:
            keep_columns(
                x, memory, table, program - num_tiles, tl.num_programs(0) - num_tiles,
                rate, size, row_size, offset, NUM_IN, BEFORE, KEPT,
            )  # fmt: skip
    else:
        columns, is_column = columns_of(program // NUM_PARTS, num_columns, COLUMNS)
        outputs = (program % NUM_PARTS) * OUTPUTS + tl.arange(0, OUTPUTS)
        total = _multiply(
            x, memory, table, weight, rest, columns, is_column, outputs, rate, size, row_size,
            offset, epsilon,
            NUM_IN, NUM_OUT, NUM_TAPS, DILATION, HAS_NORM, COLUMNS, OUTPUTS, INPUTS, IS_SPLIT,
        )  # fmt: skip
        if HAS_BIAS:
            total += tl.load(bias + outputs, mask=outputs < NUM_OUT, other=0.0)[None, :]
        if ACTIVATION == "gelu":
            total = 0.5 * total * (1.0 + tl.erf(total * 0.7071067811865476))
        if IS_GATE:
            gate, up = tl.split(tl.reshape(total, (COLUMNS, SPAN, 2)))
            total = gate / (1.0 + tl.exp(-gate)) * up
        channels = (program % NUM_PARTS) * SPAN + tl.arange(0, SPAN)
        spots = columns.to(tl.int64)[:, None] * WIDTH + channels[None, :]
        inside = is_column[:, None] & (channels < WIDTH)[None, :]
        if HAS_RESIDUAL:
            total += tl.load(residual + spots, mask=inside, other=0.0).to(tl.float32)
        if KEEPS_SUM:
            tl.store(result + spots, narrowed(total, result.dtype.element_ty), mask=inside)
        if HAS_SNAKE:
            rates = tl.load(frequency + channels, mask=channels < WIDTH, other=0.0)
            sizes = tl.load(amplitude + channels, mask=channels < WIDTH, other=0.0)
            total = snake_of(total, rates[None, :], sizes[None, :])
            tl.store(active + spots, narrowed(total, active.dtype.element_ty), mask=inside)
