"""Which stream each frame of a pass belongs to: a table that the host fills and kernels read.

A pass has rows: the next frames of one stream each, one after the other. A table has these fields,
in this order; kernels fill in the last two.

- slots: of each frame, the slot of its stream.
- places: of each frame, its number in its row.
- offsets: of each row its first frame; after the last row, the number of all frames.
- the number of rows.
- turns: of each frame, which of two copies of what came before its row is to read.
- positions: of each frame, the frames that its stream has before it.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NUM_FIELDS = 6
_NUM_GIVEN = 4
_ALIGNMENT = 32  # numbers; fields that begin so are loaded alike


def empty_table(max_frames: int, device: torch.device) -> Tensor:
    """Return a table for passes of up to ``max_frames``: int32 ``[NUM_FIELDS, more]``."""
    size = (max_frames // _ALIGNMENT + 1) * _ALIGNMENT
    return torch.zeros(NUM_FIELDS, size, dtype=torch.int32, device=device)


def table_of(
    rows: Sequence[tuple[int, int]], size: int, padding_slot: int, max_row_frames: int
) -> NDArray[np.int64]:
    """Return what the host fills in.

    Args:
        rows: slot and number of frames of each.
        size: frames of the pass; what is missing belongs to more rows.
        padding_slot: of these.
        max_row_frames: that they have.

    Returns:
        The first fields, ``[4, size + 1]``.
    """
    slots, lengths = (list(each) for each in zip(*rows, strict=True)) if rows else ([], [])
    num_left = size - sum(lengths)
    assert num_left >= 0, "the rows have more frames than the pass"
    padding = [max_row_frames] * (num_left // max_row_frames)
    if num_left % max_row_frames:
        padding.append(num_left % max_row_frames)
    slots += [padding_slot] * len(padding)
    lengths += padding
    table = np.full((_NUM_GIVEN, size + 1), size, np.int64)
    table[2, 0] = 0
    table[2, 1 : len(lengths) + 1] = np.cumsum(lengths)
    table[0, :size] = np.repeat(slots, lengths)
    table[1, :size] = np.arange(size) - np.repeat(table[2, : len(lengths)], lengths)
    table[3] = len(lengths)
    return table


def fill(table: Tensor, given: Tensor) -> None:
    """Copy what `table_of` returned, on the device by now, into a table."""
    table[: len(given), : given.shape[1]].copy_(given)
