"""Frame table of a pass: the stream of each frame, filled by the host and read by kernels.

A pass has rows of consecutive frames of one stream each. A table has these fields, in this order;
kernels fill in the last two.

- slots: slot of each frame's stream. - places: number of each frame in its row. - offsets: first
frame of each row; after the last row, the number of all frames. - the number of rows. - turns:
which of two copies of the preceding columns each frame's row reads. - positions: number of earlier
frames of each frame's stream.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NUM_FIELDS = 6
_ALIGNMENT = 32  # numbers; keeps every field aligned for vector loads


def empty_table(max_frames: int, device: torch.device, *, num_more: int = 0) -> Tensor:
    """Return a table for passes of up to ``max_frames``: int32 ``[NUM_FIELDS, more]``.

    ``num_more`` fields outside the table follow it.
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
    """Fill in a table's fields, except those that kernels fill in; the caller uploads it.

    Args:
        table: ``[at least 4, more than size]``.
        rows: slot and number of frames of each row.
        size: frames of the pass; padding rows are added up to it.
        max_row_frames: most frames of a padding row.
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
