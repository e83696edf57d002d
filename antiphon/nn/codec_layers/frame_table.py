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
_ALIGNMENT = 32  # numbers; fields that begin so are loaded alike


def empty_table(max_frames: int, device: torch.device, *, num_more: int = 0) -> Tensor:
    """Return a table for passes of up to ``max_frames``: int32 ``[NUM_FIELDS, more]``.

    ``num_more`` fields that are not of the table follow on it.
    """
    size = (max_frames // _ALIGNMENT + 1) * _ALIGNMENT
    return torch.zeros(NUM_FIELDS + num_more, size, dtype=torch.int32, device=device)


def fill(
    table: NDArray[np.int32],
    rows: Sequence[tuple[int, int]],
    size: int,
    padding_slot: int,
    max_row_frames: int,
) -> None:
    """Fill in a table what kernels do not; it comes to the device later.

    Args:
        table: ``[at least 4, more than size]``.
        rows: slot and number of frames of each.
        size: frames of the pass; what is missing belongs to more rows.
        padding_slot: of these.
        max_row_frames: that they have.
    """
    slots, lengths = (list(each) for each in zip(*rows, strict=True)) if rows else ([], [])
    num_left = size - sum(lengths)
    assert num_left >= 0, "the rows have more frames than the pass"
    padding = [max_row_frames] * (num_left // max_row_frames)
    if num_left % max_row_frames:
        padding.append(num_left % max_row_frames)
    slots += [padding_slot] * len(padding)
    lengths += padding
    num_rows, of_rows = len(lengths), np.array(lengths, np.int64)
    offsets = table[2, : size + 1]
    offsets[0] = 0
    np.cumsum(of_rows, out=offsets[1 : num_rows + 1])
    offsets[num_rows + 1 :] = size
    table[0, :size] = np.array(slots, np.int32).repeat(of_rows)
    table[1, :size] = np.arange(size) - offsets[:num_rows].repeat(of_rows)
    table[3, : size + 1] = num_rows
