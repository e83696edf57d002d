"""Kernels of codecs with depthwise convolutions: latent input, taps, activations.

Each value depends on its own column and a few before it, always in the same order: a row's result
is bit-identical in any batch and grouping.
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

from antiphon.nn.kernels.causal_conv import ConvWeights
from antiphon.nn.kernels.pdl import await_others, overlaps
from antiphon.nn.kernels.snake import narrowed, snake_of
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
from antiphon.nn.layers import Snake

_NUMBERS, _CHANNELS = 2048, 64  # per program; channels at most


def begin_latents(
    frames: Tensor,
    latent_dim: int,
    table: Tensor,
    streams: tuple[Tensor, Tensor, Tensor],
    max_row_frames: int,
) -> tuple[Tensor, Rows]:
    """Unpack latents from frames, and advance the streams by these frames.

    Args:
        frames: int64 ``[num_frames, 1 + n * latent_dim]``: an unused number, then the bits of
            float32 numbers.
        latent_dim: channels of a column.
        table: frame table, see `antiphon.nn.codec_layers.frame_table`; completed in place.
        streams: memory ``[num_slots, row_size]``, turns int32 ``[num_slots]`` and positions int64
            ``[num_slots]``; the last two are updated.

    Returns:
        Columns in the memory's type, ``[num_frames * n, latent_dim]``, and the rows with the
        streams' previous positions.
    """
    memory, turns, positions = streams
    num_frames, frame_size = frames.shape
    assert frames.is_contiguous()
    width = frame_size - 1
    rows = Rows(memory, table, memory.new_empty(num_frames, 0), max_row_frames)
    latents = memory.new_empty(num_frames * width // latent_dim, latent_dim)
    is_early = overlaps(frames)
    _begin_latents[(num_frames,)](
        frames, table, turns, positions, latents, table.stride(0),
        WIDTH=width, BLOCK=triton.next_power_of_2(width), OVERLAPS=is_early,
        launch_pdl=is_early, num_warps=4,
    )  # fmt: skip
    return latents, rows


def depthwise(x: Tensor, conv: ConvWeights, rows: Rows, snake: Snake | None = None) -> Tensor:
    """Convolve each channel with its own taps and activate; store the last columns.

    Args:
        x: ``[num_frames * rate, channels]``.
        conv: weight ``[num_taps, channels]``; so ``num_out`` is the channels.
        rows: rows of ``x``.
        snake: activation of the result.

    Returns:
        Shape of ``x``.
    """
    num_columns, width = x.shape
    assert x.is_contiguous()
    result = torch.empty_like(x)
    columns, channels = _tile(width)
    num_tiles = triton.cdiv(num_columns, columns) * triton.cdiv(width, channels)
    is_early = overlaps(x)
    frequency, amplitude = (None, None) if snake is None else (snake.frequency, snake.amplitude)
    _depthwise[(num_tiles + rows.num_keepers(width),)](
        x, rows.memory, rows.table, conv.weight, conv.bias, frequency, amplitude, result,
        num_columns, num_columns // rows.num_frames, rows.table.stride(0), rows.memory.stride(0),
        conv.offset,
        WIDTH=width, NUM_TAPS=conv.num_taps, DILATION=conv.dilation, HAS_SNAKE=snake is not None,
        COLUMNS=columns, CHANNELS=channels, KEPT=KEPT_CHANNELS, OVERLAPS=is_early,
        launch_pdl=is_early, num_warps=4,
    )  # fmt: skip
    return result


def scaled_snake(x: Tensor, scale: Tensor, shift: Tensor, snake: Snake) -> Tensor:
    """Return the snake of ``x * scale + shift``, ``[num_columns, channels]``.

    Args:
        x: input of the result's shape.
        scale: float32 ``[channels]``.
        shift: float32 ``[channels]``.
        snake: activation of the sum.
    """
    num_columns, width = x.shape
    assert x.is_contiguous()
    result = torch.empty_like(x)
    columns, channels = _tile(width)
    is_early = overlaps(x)
    _scaled_snake[(triton.cdiv(num_columns, columns), triton.cdiv(width, channels))](
        x, scale, shift, snake.frequency, snake.amplitude, result, num_columns,
        WIDTH=width, COLUMNS=columns, CHANNELS=channels, OVERLAPS=is_early,
        launch_pdl=is_early, num_warps=4,
    )  # fmt: skip
    return result


def _tile(width: int) -> tuple[int, int]:
    """Return the numbers of columns and channels of a program."""
    channels = min(_CHANNELS, int(triton.next_power_of_2(width)))
    return min(_NUMBERS // channels, 64), channels


@triton.jit
def _begin_latents(
    frames, table, turns, positions, latents, size,
    WIDTH: tl.constexpr, BLOCK: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    frame = tl.program_id(0)
    number = tl.arange(0, BLOCK)
    inside = number < WIDTH
    bits = tl.load(frames + frame.to(tl.int64) * (WIDTH + 1) + 1 + number, mask=inside, other=0)
    value = bits.to(tl.int32).to(tl.float32, bitcast=True)
    places = latents + frame.to(tl.int64) * WIDTH + number
    tl.store(places, narrowed(value, latents.dtype.element_ty), mask=inside)
    first = tl.load(offsets_of(table, size) + frame)  # of the row with this number, if any
    end = tl.load(offsets_of(table, size) + frame + 1)
    if first < end:
        slot = tl.load(slots_of(table, size) + first).to(tl.int64)
        turn = tl.load(turns + slot)
        start = tl.load(positions + slot)
        tl.store(turns + slot, 1 - turn)
        tl.store(positions + slot, start + end - first)
        for later in range(first, end):
            tl.store(turns_of(table, size) + later, turn)
            tl.store(positions_of(table, size) + later, (start + later - first).to(tl.int32))


@triton.jit(do_not_specialize=["num_columns", "rate"])
def _depthwise(
    x, memory, table, weight, bias, frequency, amplitude, result,
    num_columns, rate, size, row_size, offset,
    WIDTH: tl.constexpr, NUM_TAPS: tl.constexpr, DILATION: tl.constexpr, HAS_SNAKE: tl.constexpr,
    COLUMNS: tl.constexpr, CHANNELS: tl.constexpr, KEPT: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    BEFORE: tl.constexpr = (NUM_TAPS - 1) * DILATION
    NUM_PARTS: tl.constexpr = (WIDTH + CHANNELS - 1) // CHANNELS
    program = tl.program_id(0)
    num_tiles = tl.cdiv(num_columns, COLUMNS) * NUM_PARTS
    if program >= num_tiles:
        keep_columns(
            x, memory, table, program - num_tiles, tl.num_programs(0) - num_tiles,
            rate, size, row_size, offset, WIDTH, BEFORE, KEPT,
        )  # fmt: skip
    else:
        columns, is_column = columns_of(program // NUM_PARTS, num_columns, COLUMNS)
        channels = (program % NUM_PARTS) * CHANNELS + tl.arange(0, CHANNELS)
        is_channel = channels < WIDTH
        inside = is_column[:, None] & is_channel[None, :]
        present, past, place = column_sources(
            x, memory, table, columns, rate, size, row_size, offset, WIDTH, BEFORE
        )
        total = tl.zeros((COLUMNS, CHANNELS), tl.float32)
        total += tl.load(bias + channels, mask=is_channel, other=0.0)[None, :]
        for tap in tl.static_range(NUM_TAPS):
            shift = (NUM_TAPS - 1 - tap) * DILATION
            source = tl.where(place >= shift, present, past) - shift * WIDTH
            value = tl.load(source[:, None] + channels[None, :], mask=inside, other=0.0)
            factor = tl.load(weight + tap * WIDTH + channels, mask=is_channel, other=0.0)
            total += value.to(tl.float32) * factor.to(tl.float32)[None, :]
        if HAS_SNAKE:
            rates = tl.load(frequency + channels, mask=is_channel, other=0.0)
            sizes = tl.load(amplitude + channels, mask=is_channel, other=0.0)
            total = snake_of(total, rates[None, :], sizes[None, :])
        spots = result + columns.to(tl.int64)[:, None] * WIDTH + channels[None, :]
        tl.store(spots, narrowed(total, result.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["num_columns"])
def _scaled_snake(
    x, scale, shift, frequency, amplitude, result, num_columns,
    WIDTH: tl.constexpr, COLUMNS: tl.constexpr, CHANNELS: tl.constexpr, OVERLAPS: tl.constexpr,
):  # fmt: skip
    await_others(OVERLAPS)
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    channels = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    is_channel = channels < WIDTH
    inside = (columns < num_columns)[:, None] & is_channel[None, :]
    spots = columns.to(tl.int64)[:, None] * WIDTH + channels[None, :]
    value = tl.load(x + spots, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(scale + channels, mask=is_channel, other=0.0)
    addend = tl.load(shift + channels, mask=is_channel, other=0.0)
    rates = tl.load(frequency + channels, mask=is_channel, other=0.0)
    sizes = tl.load(amplitude + channels, mask=is_channel, other=0.0)
    value = snake_of(value * factor[None, :] + addend[None, :], rates[None, :], sizes[None, :])
    tl.store(result + spots, narrowed(value, result.dtype.element_ty), mask=inside)
