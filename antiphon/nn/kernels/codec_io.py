"""The codec's small kernels: sums of code vectors, depthwise convolution with norm, samples."""

from typing import Literal, TypeAlias

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.causal_conv import ConvWeights
from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.snake import narrowed
from antiphon.nn.kernels.stream_columns import (
    KEPT_CHANNELS,
    Rows,
    column_sources,
    columns_of,
    keep_columns,
    offsets_of,
    positions_of,
    slots_of,
    turns_of,
)

Bound: TypeAlias = Literal["clamp", "tanh"]
"""Method that bounds samples to [-1, 1]."""

_SAMPLES = 64  # per program
_SAMPLE_CHANNELS = 32  # per iteration


def begin_frames(
    codes: Tensor,
    tables: Tensor,
    radians: Tensor,
    table: Tensor,
    streams: tuple[Tensor, Tensor, Tensor],
    max_row_frames: int,
    *,
    is_rotation_rounded: bool = False,
) -> tuple[Tensor, Rows]:
    """Sum the vectors of each frame's codes, and advance the streams by these frames.

    Args:
        codes: int64 ``[num_frames, num_tables]``; codes outside the tables are clamped.
        tables: ``[num_tables, table_size, width]``.
        radians: rotation per position, float32 ``[head_dim // 2]``.
        table: frame table, see `antiphon.nn.codec_layers.frame_table`; completed in place.
        streams: memory ``[num_slots, row_size]``, turns int32 ``[num_slots]`` and positions int64
            ``[num_slots]``; the last two are updated.
        is_rotation_rounded: whether the rotation is rounded to bfloat16.

    Returns:
        The sums, ``[num_frames, width]``, and the rows with the streams' previous positions.
    """
    memory, turns, positions = streams
    num_frames, num_tables = codes.shape
    _, table_size, width = tables.shape
    half = len(radians)
    rows = Rows(memory, table, radians.new_empty(num_frames, 2 * half), max_row_frames)
    sums = tables.new_empty(num_frames, width)
    is_early = overlaps(codes)
    _begin_frames[(num_frames,)](
        codes, tables, radians, table, turns, positions, rows.rotation, sums, table.stride(0),
        NUM_TABLES=num_tables, TABLE_SIZE=table_size, WIDTH=width, HALF=half,
        IS_ROUNDED=is_rotation_rounded, BLOCK=triton.next_power_of_2(width), OVERLAPS=is_early,
        launch_pdl=is_early, num_warps=4,
    )  # fmt: skip
    return sums, rows


def depthwise_norm(
    x: Tensor, conv: ConvWeights, rows: Rows, norm: tuple[Tensor, Tensor], epsilon: float
) -> Tensor:
    """Convolve each channel with its own taps, then norm each column; store the last columns.

    Args:
        x: ``[num_frames * rate, channels]``.
        conv: undilated weight ``[num_taps, channels]`` (so ``num_out`` is the channels).
        rows: rows of ``x``.
        norm: weight and bias of a LayerNorm, float32.

    Returns:
        Shape of ``x``.
    """
    num_columns, width = x.shape
    assert x.is_contiguous()
    result = torch.empty_like(x)
    num_keepers = rows.num_keepers(width)
    is_early = overlaps(x)
    _depthwise_norm[(num_columns + num_keepers,)](
        x, rows.memory, rows.table, conv.weight, conv.bias, *norm, result, num_columns,
        num_columns // rows.num_frames, rows.table.stride(0), rows.memory.stride(0), conv.offset,
        epsilon,
        WIDTH=width, BEFORE=conv.weight.shape[0] - 1, BLOCK=triton.next_power_of_2(width),
        KEPT=KEPT_CHANNELS, OVERLAPS=is_early,
        launch_pdl=is_early, num_warps=4,
    )  # fmt: skip
    return result


def samples(x: Tensor, conv: ConvWeights, rows: Rows, bound: Bound = "clamp") -> Tensor:
    """Convolve to one channel, bounded to [-1, 1]; store the last columns for the next call.

    Args:
        x: ``[num_frames * rate, channels]``.
        conv: undilated weight, float32 ``[num_taps * channels, 1]``.
        rows: rows of ``x``.

    Returns:
        float32 ``[num_frames * rate]``.
    """
    num_columns, width = x.shape
    assert x.is_contiguous()
    assert conv.dilation == 1
    result = x.new_empty(num_columns, dtype=torch.float32)
    num_keepers = rows.num_keepers(width)
    is_early = overlaps(x)
    _samples[(triton.cdiv(num_columns, _SAMPLES) + num_keepers,)](
        x, rows.memory, rows.table, conv.weight, conv.bias, result, num_columns,
        num_columns // rows.num_frames, rows.table.stride(0), rows.memory.stride(0), conv.offset,
        WIDTH=width, BEFORE=conv.num_before, COLUMNS=_SAMPLES, CHANNELS=_SAMPLE_CHANNELS,
        BOUND=bound, KEPT=KEPT_CHANNELS, OVERLAPS=is_early,
        launch_pdl=is_early, num_warps=4,
    )  # fmt: skip
    return result


@triton.jit
def _rounded(x) -> tl.tensor:
    """Round float32 to bfloat16, to even, by its bits: Triton's interpreter does not carry."""
    bits = x.to(tl.int32, bitcast=True)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & -0x10000
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def _begin_frames(
    codes, tables, radians, table, turns, positions, rotation, sums, size,
    NUM_TABLES: tl.constexpr, TABLE_SIZE: tl.constexpr, WIDTH: tl.constexpr, HALF: tl.constexpr,
    IS_ROUNDED: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    frame = tl.program_id(0)
    channels = tl.arange(0, BLOCK)
    inside = channels < WIDTH
    total = tl.zeros((BLOCK,), tl.float32)
    for each in range(NUM_TABLES):
        code = tl.load(codes + frame * NUM_TABLES + each)
        code = tl.minimum(tl.maximum(code, 0), TABLE_SIZE - 1)
        places = tables + (each * TABLE_SIZE + code) * WIDTH + channels
        total += tl.load(places, mask=inside, other=0.0).to(tl.float32)
    tl.store(sums + frame * WIDTH + channels, narrowed(total, sums.dtype.element_ty), mask=inside)
    first = tl.load(offsets_of(table, size) + frame)  # of the row with this number, if any
    end = tl.load(offsets_of(table, size) + frame + 1)
    if first < end:
        slot = tl.load(slots_of(table, size) + first).to(tl.int64)
        turn = tl.load(turns + slot)
        start = tl.load(positions + slot)
        tl.store(turns + slot, 1 - turn)
        tl.store(positions + slot, start + end - first)
        number = tl.arange(0, HALF)
        rate = tl.load(radians + number)
        for later in range(first, end):
            position = start + later - first
            tl.store(turns_of(table, size) + later, turn)
            tl.store(positions_of(table, size) + later, position.to(tl.int32))
            angle = position.to(tl.float32) * rate
            spots = rotation + later * (2 * HALF) + number
            cosine, sine = tl.cos(angle), tl.sin(angle)
            if IS_ROUNDED:
                cosine, sine = _rounded(cosine), _rounded(sine)
            tl.store(spots, cosine)
            tl.store(spots + HALF, sine)


@triton.jit(do_not_specialize=["num_columns", "rate"])
def _depthwise_norm(
    x, memory, table, weight, bias, norm_weight, norm_bias, result,
    num_columns, rate, size, row_size, offset, epsilon,
    WIDTH: tl.constexpr, BEFORE: tl.constexpr, BLOCK: tl.constexpr, KEPT: tl.constexpr,
    OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    program = tl.program_id(0)
    if program >= num_columns:
        keep_columns(
            x, memory, table, program - num_columns, tl.num_programs(0) - num_columns,
            rate, size, row_size, offset, WIDTH, BEFORE, KEPT,
        )  # fmt: skip
    else:
        channels = tl.arange(0, BLOCK)
        inside = channels < WIDTH
        present, past, place = column_sources(
            x, memory, table, program, rate, size, row_size, offset, WIDTH, BEFORE
        )
        total = tl.load(bias + channels, mask=inside, other=0.0)
        for tap in tl.static_range(BEFORE + 1):
            shift = BEFORE - tap
            source = tl.where(place >= shift, present, past) - shift * WIDTH
            value = tl.load(source + channels, mask=inside, other=0.0).to(tl.float32)
            factor = tl.load(weight + tap * WIDTH + channels, mask=inside, other=0.0)
            total += value * factor.to(tl.float32)
        mean = tl.sum(total, axis=0) / WIDTH
        centred = tl.where(inside, total - mean, 0.0)
        variance = tl.sum(centred * centred, axis=0) / WIDTH
        normed = centred * tl.rsqrt(variance + epsilon)
        normed = normed * tl.load(norm_weight + channels, mask=inside, other=0.0)
        normed += tl.load(norm_bias + channels, mask=inside, other=0.0)
        places = result + program.to(tl.int64) * WIDTH + channels
        tl.store(places, narrowed(normed, result.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["num_columns", "rate"])
def _samples(
    x, memory, table, weight, bias, result, num_columns, rate, size, row_size, offset,
    WIDTH: tl.constexpr, BEFORE: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr,
    BOUND: tl.constexpr, KEPT: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    program = tl.program_id(0)
    num_tiles = tl.cdiv(num_columns, COLUMNS)
    if program >= num_tiles:
        keep_columns(
            x, memory, table, program - num_tiles, tl.num_programs(0) - num_tiles,
            rate, size, row_size, offset, WIDTH, BEFORE, KEPT,
        )  # fmt: skip
    else:
        columns, is_column = columns_of(program, num_columns, COLUMNS)
        present, past, place = column_sources(
            x, memory, table, columns, rate, size, row_size, offset, WIDTH, BEFORE
        )
        total = tl.zeros((COLUMNS, CHANNELS), tl.float32)
        for tap in tl.static_range(BEFORE + 1):
            shift = BEFORE - tap
            source = tl.where(place >= shift, present, past) - shift * WIDTH
            for first in tl.static_range(0, WIDTH, CHANNELS):
                channels = first + tl.arange(0, CHANNELS)
                inside = channels < WIDTH
                factor = tl.load(weight + tap * WIDTH + channels, mask=inside, other=0.0)
                places = source[:, None] + channels[None, :]
                value = tl.load(places, mask=inside[None, :], other=0.0).to(tl.float32)
                total += value * factor[None, :]
        sample = tl.sum(total, axis=1) + tl.load(bias)
        if BOUND == "tanh":
            sample = 2.0 / (1.0 + tl.exp(-2.0 * sample)) - 1.0
        else:
            sample = tl.minimum(tl.maximum(sample, -1.0), 1.0)
        tl.store(result + columns, sample, mask=is_column)
