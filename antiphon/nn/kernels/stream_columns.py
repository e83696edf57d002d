"""Columns of many streams in one pass: whose they are, what came before them, what is kept.

Columns of all rows stand one below the other, of each row as many as it has frames times the rate
of the layer. A table says of each frame whose it is; what a tap reads before a row's first column
comes out of the row's slot. A slot keeps two copies of the columns that came before: all programs
read the one whose turn it is, and some write the other. Nothing is joined, gathered or put back.
"""

from dataclasses import dataclass

import triton
import triton.language as tl
from torch import Tensor

KEPT_CHANNELS = 64
"""Of a program that keeps columns."""
_KEPT_ROWS = (4, 32)
"""Rows that are kept at a time, at least and at most: a pass may have as many rows as frames, but
has few, and a program that finds no row takes a multiprocessor's time all the same."""
_ROW_FRAMES = 4  # that a row has, or more, unless many streams begin at once


@dataclass(frozen=True, slots=True)
class Rows:
    """The frames of a pass: those of one stream after those of another, any number of each.

    Attributes:
        memory: what streams keep of what came before, ``[num_slots, row_size]``.
        table: whose the frames are, see `antiphon.nn.codec_layers.frame_table`.
        rotation: of the frames, float32 ``[num_frames, head_dim]``: cosines of half a head, then
            sines.
        max_row_frames: that a row has.
    """

    memory: Tensor
    table: Tensor
    rotation: Tensor
    max_row_frames: int

    @property
    def num_frames(self) -> int:
        return self.rotation.shape[0]

    def num_keepers(self, num_channels: int) -> int:
        """Return how many programs keep columns of so many channels."""
        least, most = _KEPT_ROWS
        num_rows = min(max(self.num_frames // _ROW_FRAMES, least), most, self.num_frames)
        return num_rows * -(-num_channels // KEPT_CHANNELS)


@triton.jit
def slots_of(table, size) -> tl.tensor:
    """Return where the frames' slots are in a table."""
    return table


@triton.jit
def places_of(table, size) -> tl.tensor:
    """Return where the frames' places in their rows are."""
    return table + size


@triton.jit
def offsets_of(table, size) -> tl.tensor:
    """Return where the rows' first frames are."""
    return table + 2 * size


@triton.jit
def num_rows_of(table, size) -> tl.tensor:
    """Return the number of rows."""
    return tl.load(table + 3 * size)


@triton.jit
def turns_of(table, size) -> tl.tensor:
    """Return where it is which of two copies a frame's row is to read."""
    return table + 4 * size


@triton.jit
def positions_of(table, size) -> tl.tensor:
    """Return where the frames' positions in their streams are."""
    return table + 5 * size


@triton.jit
def keep_columns(
    x, memory, table, keeper, num_keepers, rate, size, row_size, offset,
    WIDTH: tl.constexpr, BEFORE: tl.constexpr, KEPT: tl.constexpr,
) -> None:  # fmt: skip
    """Put the last columns of the past and ``x`` into the copy that is not read in this call.

    One of ``ceil(WIDTH / KEPT)`` keepers of a row keeps some of its channels. If there are fewer
    keepers than that for all rows, they go on to others.
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
    """Return the columns of a tile, and which of them there are; others are the last one again."""
    columns = tile * COLUMNS + tl.arange(0, COLUMNS)
    return tl.minimum(columns, num_columns - 1), columns < num_columns


@triton.jit
def column_sources(
    x, memory, table, columns, rate, size, row_size, offset,
    NUM_IN: tl.constexpr, BEFORE: tl.constexpr,
) -> tuple[tl.tensor, ...]:  # fmt: skip
    """Return where columns are, where they would be in the past, and their places in a row.

    The latter two mean nothing if nothing is read of the past.
    """
    present = x + columns.to(tl.int64) * NUM_IN
    if BEFORE == 0:
        return present, present, columns
    frame = columns // rate
    place = tl.load(places_of(table, size) + frame) * rate + columns % rate
    slot = tl.load(slots_of(table, size) + frame).to(tl.int64)
    first = (tl.load(turns_of(table, size) + frame) * BEFORE + BEFORE + place) * NUM_IN
    return present, memory + slot * row_size + offset + first, place
