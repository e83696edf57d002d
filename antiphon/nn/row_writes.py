"""Row writes: host changes to rows of tensors, many of them in one launch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.nn import kernels

NUMPY_TYPES: dict[torch.dtype, type[np.generic]] = {
    torch.bool: np.bool_,
    torch.int32: np.int32,
    torch.int64: np.int64,
    torch.float32: np.float32,
}
"""Types whose numbers can come from the host."""

NUM_FIELDS = 5
"""Fields of a table row; see `antiphon.nn.kernels.row_writes.write_rows`."""

_WORD_BYTES = 8
_TORCH_TYPES = {np.dtype(each): dtype for dtype, each in NUMPY_TYPES.items()}


class Packing:
    """Arrays packed for the device, in 64-bit words."""

    def __init__(self, first: int = 0) -> None:
        """Start with the word number ``first``."""
        self._parts: list[NDArray[np.int64]] = []
        self._num_words = first

    @property
    def num_words(self) -> int:
        """Words so far, including those before the first."""
        return self._num_words

    @property
    def parts(self) -> Sequence[NDArray[np.int64]]:
        """Added arrays, in order."""
        return self._parts

    def add(self, array: NDArray[Any]) -> slice:
        """Add 64-bit numbers; return their words."""
        part = np.ascontiguousarray(array).reshape(-1).view(np.int64)
        first, self._num_words = self._num_words, self._num_words + len(part)
        self._parts.append(part)
        return slice(first, self._num_words)

    def add_rows(self, array: NDArray[Any]) -> slice:
        """Add rows of numbers of any type, each padded to whole words."""
        rows = np.ascontiguousarray(array)
        num_bytes = rows.shape[1] * rows.itemsize
        if num_bytes % _WORD_BYTES == 0:
            return self.add(rows.reshape(-1))
        words = np.zeros((len(rows), -(-num_bytes // _WORD_BYTES)), np.int64)
        words.view(np.uint8)[:, :num_bytes] = rows.view(np.uint8)
        return self.add(words)

    def words(self) -> NDArray[np.int64]:
        """Return all words, concatenated."""
        return np.concatenate(self._parts)


@dataclass(frozen=True, slots=True, eq=False)
class RowWrite:
    """New numbers for the beginning of some rows of one tensor.

    Attributes:
        target: ``[all rows, ...]``, contiguous within a row.
        rows: distinct rows, int64 ``[num_rows]``.
        num_values: numbers per row.
        source: one row of host numbers per row of ``rows``; or one row for all of them on the
            device, of one number if all are the same.
    """

    target: Tensor
    rows: NDArray[np.int64]
    num_values: int
    source: NDArray[Any] | Tensor

    @property
    def storage(self) -> int:
        """Storage address; writes with different addresses are disjoint."""
        return self.target.untyped_storage().data_ptr()


def packed_writes(writes: Sequence[RowWrite], packing: Packing) -> Callable[[Tensor], object]:
    """Pack disjoint writes.

    Returns:
        A function that applies them, given the packing's words on the device.
    """
    if kernels.run_on(writes[0].target):
        return _launching(writes, packing)
    placed = [_placed(write, packing) for write in writes]

    def write_all(words: Tensor) -> None:
        for place in placed:
            place(words)

    return write_all


def _launching(writes: Sequence[RowWrite], packing: Packing) -> Callable[[Tensor], object]:
    from antiphon.nn.kernels.row_writes import write_rows

    table = write_table(writes, packing)
    place = packing.add(np.array(table, np.int64))
    assert place.stop - place.start == NUM_FIELDS * sum(len(each.rows) for each in writes)
    return lambda words: write_rows(words[place], words)


def write_table(writes: Sequence[RowWrite], packing: Packing) -> list[int]:
    """Return the table of `antiphon.nn.kernels.row_writes.write_rows`, and pack the numbers.

    Plain Python integers: nearly all writes are of one row, for which arrays take ten times as
    long.
    """
    return [*chain.from_iterable(_told(write, packing) for write in writes)]


def _told(write: RowWrite, packing: Packing) -> list[int]:
    """Return the kernel's table entries for the rows of a write."""
    target, source = write.target, write.source
    size = target.element_size()
    first, row_bytes = target.data_ptr(), target.stride(0) * size
    if isinstance(source, Tensor):
        place, step = source.data_ptr(), 0
    else:
        words = packing.add_rows(source)
        place, step = -1 - _WORD_BYTES * words.start, -_WORD_BYTES * (words.stop - words.start)
        step //= len(source)
    rest = write.num_values, size, int(source.shape[-1] == write.num_values)
    told: list[int] = []
    for row in write.rows.tolist():
        told += (first + row * row_bytes, place, *rest)
        place += step
    return told


def _placed(write: RowWrite, packing: Packing) -> Callable[[Tensor], object]:
    """Pack one write for PyTorch operations."""
    source = write.source
    rows = packing.add(write.rows)
    values = None if isinstance(source, Tensor) else packing.add_rows(source)

    def write_it(words: Tensor) -> None:
        flat = write.target.view(len(write.target), -1)
        if isinstance(source, Tensor):
            new = source
        else:
            new = words[values].view(_TORCH_TYPES[source.dtype]).view(len(source), -1)
            new = new[:, : source.shape[1]]  # without the padding of words
        flat[words[rows], : write.num_values] = new

    return write_it
