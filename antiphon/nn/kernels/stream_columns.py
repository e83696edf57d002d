"""Columns of many streams in one pass, with the preceding columns in their slots.

Columns of all rows are concatenated, for each row its number of frames times the rate of the layer.
A table assigns each frame to a row; taps before a row's first column read the row's slot. A slot
keeps two copies of the preceding columns: all programs read the current one, and some write the
other. Nothing is joined, gathered or scattered.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

KEPT_CHANNELS = 64
"""Channels per program that stores columns."""
_KEPT_ROWS = (4, 32)
"""Rows stored at a time, at least and at most: a pass may have as many rows as frames, but usually
has few, and a program without rows takes a multiprocessor's time all the same."""
_ROW_FRAMES = 4  # of a row at least, unless many streams start at once


@dataclass(frozen=True, slots=True)
class Rows:
    """Frames of a pass: any number per stream, concatenated.

    Attributes:
        memory: state of streams, ``[num_slots, row_size]``.
        table: frame table, see `antiphon.nn.codec_layers.frame_table`.
        rotation: rotation of the frames, float32 ``[num_frames, head_dim]``: cosines of half a
            head, then sines.
    """

    memory: Tensor
    table: Tensor
    rotation: Tensor
    max_row_frames: int

    @property
    def num_frames(self) -> int:
        return self.rotation.shape[0]

    def num_keepers(self, num_channels: int) -> int:
        """Return the number of programs that store this many channels."""
        least, most = _KEPT_ROWS
        num_rows = min(max(self.num_frames // _ROW_FRAMES, least), most, self.num_frames)
        return num_rows * -(-num_channels // KEPT_CHANNELS)


@triton.jit
def slots_of(table, size) -> tl.tensor:
    """Return a pointer to the frames' slots in a table."""
    return table


@triton.jit
def places_of(table, size) -> tl.tensor:
    """Return a pointer to the frames' places in their rows."""
    return table + size


@triton.jit
def offsets_of(table, size) -> tl.tensor:
    """Return a pointer to the rows' first frames."""
    return table + 2 * size


@triton.jit
def num_rows_of(table, size) -> tl.tensor:
    return tl.load(table + 3 * size)


@triton.jit
def turns_of(table, size) -> tl.tensor:
    """Return a pointer to the copy that each frame's row reads."""
    return table + 4 * size


@triton.jit
def positions_of(table, size) -> tl.tensor:
    """Return a pointer to the frames' positions in their streams."""
    return table + 5 * size


@triton.jit
def keep_columns(
    x, memory, table, keeper, num_keepers, rate, size, row_size, offset,
    WIDTH: tl.constexpr, BEFORE: tl.constexpr, KEPT: tl.constexpr,
) -> None:  # fmt: skip
    """Write the last columns of the past and ``x`` into the copy that this call does not read.

    One of ``ceil(WIDTH / KEPT)`` keepers of a row stores some of its channels. If there are fewer
    keepers than that for all rows, they loop over rows.
    """
    NUM_PARTS: tl.constexpr = (WIDTH + KEPT - 1) // KEPT
    column = tl.arange(0, triton.next_power_of_2(BEFORE))
    channel = (keeper % NUM_PARTS) * KEPT + tl.arange(0, KEPT)
    inside = (column < BEFORE)[:, None] & (channel < WIDTH)[None, :]
    for row in range(keeper // NUM_PARTS, num_rows_of(table, size), num_keepers // NUM_PARTS):
        frame = tl.load(offsets_of(table, size) + row)
        length = (tl.load(offsets_of(table, size) + row + 1) - frame) * rate
        turn = tl.load(turns_of(table, size) + frame)
        slot = tl.load(slots_of(table, size) + frame).to(tl.int64)
        copies = memory + slot * row_size + offset
        before = copies + turn * (BEFORE * WIDTH)
        after = copies + (1 - turn) * (BEFORE * WIDTH)
        source = column + length - BEFORE
        present = x + frame.to(tl.int64) * rate * WIDTH + source * WIDTH
        start = tl.where(source >= 0, present, before + (column + length) * WIDTH)
        value = tl.load(start[:, None] + channel[None, :], mask=inside, other=0.0)
        tl.store(after + column[:, None] * WIDTH + channel[None, :], value, mask=inside)


@triton.jit
def columns_of(tile, num_columns, COLUMNS: tl.constexpr) -> tuple[tl.tensor, ...]:
    """Return the columns of a tile, and a mask; missing columns repeat the last one."""
    columns = tile * COLUMNS + tl.arange(0, COLUMNS)
    return tl.minimum(columns, num_columns - 1), columns < num_columns


@triton.jit
def column_sources(
    x, memory, table, columns, rate, size, row_size, offset,
    NUM_IN: tl.constexpr, BEFORE: tl.constexpr,
) -> tuple[tl.tensor, ...]:  # fmt: skip
    """Return pointers to columns, pointers to the past, and places in a row.

    The latter two are undefined without preceding columns.
    """
    present = x + columns.to(tl.int64) * NUM_IN
    if BEFORE == 0:
        return present, present, columns
    frame = columns // rate
    place = tl.load(places_of(table, size) + frame) * rate + columns % rate
    slot = tl.load(slots_of(table, size) + frame).to(tl.int64)
    first = (tl.load(turns_of(table, size) + frame) * BEFORE + BEFORE + place) * NUM_IN
    return present, memory + slot * row_size + offset + first, place
