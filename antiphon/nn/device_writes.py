"""Writes of host numbers to device tensors, one copy per step, and copies back to the host."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.nn import kernels
from antiphon.nn.graphs import Graphs

NUMPY_TYPES: dict[torch.dtype, type[np.generic]] = {
    torch.bool: np.bool_,
    torch.int32: np.int32,
    torch.int64: np.int64,
    torch.float32: np.float32,
}
"""Types whose numbers can come from the host."""

_TORCH_TYPES = {np.dtype(each): dtype for dtype, each in NUMPY_TYPES.items()}
_WORD_BYTES = 8
_NUM_FIELDS = 5  # of a table row; see `antiphon.nn.kernels.row_writes.write_rows`
_NUM_STAGED = 16  # copies of a tensor in flight, before the host waits for the first
_KEY = "writes of rows"
_NUM_WORDS = 32768  # most words of a copy; one of 64 KiB takes 3 us
_NUM_TABLES = 2  # writes of a table are disjoint; a new request writes some twice
_MAX_ROWS = 128  # rows of a table
_TABLE_WORDS = 1 + _MAX_ROWS * _NUM_FIELDS  # preceded by its number of rows


def upload(
    values: Sequence[int] | Sequence[tuple[int, ...]] | NDArray[Any], device: torch.device
) -> Tensor:
    """Return numbers as a tensor on the device, integers as int64; the copy is stream-ordered."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        array = array.astype(np.int64)
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class Staging:
    """Copies of one tensor's numbers to the device through preallocated pinned memory.

    `upload` allocates pinned memory, and memory on the device, for each copy: after other work,
    this takes an engine step 120 to 330 us on the host of an H200, and staging takes half.
    """

    def __init__(self, target: Tensor) -> None:
        """Prepare staging for ``target``, contiguous; all copies are made on one stream."""
        self._target = target
        is_cuda = target.is_cuda
        size = (_NUM_STAGED, *target.shape)
        pinned = torch.zeros(size, dtype=target.dtype, pin_memory=is_cuda)
        self._staged: list[Tensor] = [*pinned]
        self._arrays: list[NDArray[Any]] = [*pinned.numpy()]
        self._number = -1
        self._events: list[torch.cuda.Event | None] = [None] * _NUM_STAGED
        if is_cuda:
            self._events = [torch.cuda.Event() for _ in self._staged]  # type: ignore[no-untyped-call]

    def stage(self) -> NDArray[Any]:
        """Return the buffer of the next `send`, shaped like the target, with stale numbers."""
        self._number = (self._number + 1) % _NUM_STAGED
        if (event := self._events[self._number]) is not None:
            event.synchronize()  # long complete, unless the device is far behind
        return self._arrays[self._number]

    def send(self, num_rows: int | None = None) -> None:
        """Copy the staged buffer on the current stream: all rows, or the first ones."""
        staged = self._staged[self._number]
        self._target[:num_rows].copy_(staged[:num_rows], non_blocking=True)
        if (event := self._events[self._number]) is not None:
            event.record()


class Download:
    """Copy to the host in flight."""

    def __init__(self, tensor: Tensor) -> None:
        """Start copying on the current stream; later work may overwrite ``tensor``."""
        self._event: torch.cuda.Event | None = None
        self._device, self._host = tensor.device, tensor
        if tensor.is_cuda:
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
            # A waiting thread sleeps: the host's threads need the cores.
            self._event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._event.record()

    @property
    def is_done(self) -> bool:
        return self._event is None or bool(self._event.query())  # type: ignore[no-untyped-call]

    def wait(self) -> Tensor:
        """Wait for the copy and return it, in any thread."""
        if self._event is not None:
            with torch.cuda.device(self._device):  # a thread's first call would initialise device 0
                self._event.synchronize()
        return self._host


@dataclass(slots=True)
class Packing:
    """Arrays packed for the device, in 64-bit words.

    Attributes:
        num_words: words so far, including those before the first array.
        parts: added arrays, in order.
    """

    num_words: int = 0
    parts: list[NDArray[np.int64]] = field(default_factory=list)

    def add(self, array: NDArray[Any]) -> slice:
        """Add 64-bit numbers; return their words."""
        part = np.ascontiguousarray(array).reshape(-1).view(np.int64)
        first, self.num_words = self.num_words, self.num_words + len(part)
        self.parts.append(part)
        return slice(first, self.num_words)

    def add_rows(self, array: NDArray[Any]) -> slice:
        """Add rows of numbers of any type, each padded to whole words."""
        rows = np.ascontiguousarray(array)
        num_bytes = rows.shape[1] * rows.itemsize
        if num_bytes % _WORD_BYTES == 0:
            return self.add(rows.reshape(-1))
        words = np.zeros((len(rows), -(-num_bytes // _WORD_BYTES)), np.int64)
        words.view(np.uint8)[:, :num_bytes] = rows.view(np.uint8)
        return self.add(words)


@dataclass(frozen=True, slots=True, eq=False)
class RowWrite:
    """New numbers for the beginning of some rows of one tensor.

    Attributes:
        target: ``[all rows, ...]``, contiguous within a row.
        rows: distinct rows, int64 ``[num_rows]``.
        source: one row of host numbers per row of ``rows``; or one row for all of them on the
            device, of one number if all are the same.
    """

    target: Tensor
    rows: NDArray[np.int64]
    num_values: int
    source: NDArray[Any] | Tensor


_Apply: TypeAlias = Callable[[Tensor], object]
"""Function that applies packed changes, given the words on the device."""
_Call: TypeAlias = tuple[Callable[..., object], list[NDArray[Any]]]


class RowWriter:
    """CUDA graph of kernels that write rows as described by the words copied before them.

    Launched one by one, kernels take the host five times as long.
    """

    def __init__(self, graphs: Graphs, device: torch.device) -> None:
        """Capture the graph, for the stream of ``graphs``."""
        self._graphs = graphs
        self._words = torch.zeros(_NUM_WORDS, dtype=torch.int64, device=device)
        self._staging = Staging(self._words)
        if self._words.is_cuda:
            torch.cuda.synchronize(device)  # words and tables are made on another stream
        if graphs.is_enabled:
            graphs.capture(_KEY, self._write_all)

    def write(self, groups: Sequence[Sequence[RowWrite]]) -> bool:
        """Write the groups in order, each at once; return whether they fit."""
        num_rows = [sum(len(write.rows) for write in group) for group in groups]
        if len(groups) > _NUM_TABLES or max(num_rows) > _MAX_ROWS:
            return False  # before anything is packed
        first = _NUM_TABLES * _TABLE_WORDS
        packing = Packing(first)
        tables = [write_table(group, packing) for group in groups]
        if packing.num_words > _NUM_WORDS:
            return False
        words = self._staging.stage()
        if packing.parts:
            np.concatenate(packing.parts, out=words[first : packing.num_words])
        for number in range(_NUM_TABLES):
            table = tables[number] if number < len(tables) else []
            place = number * _TABLE_WORDS
            words[place] = len(table) // _NUM_FIELDS
            words[place + 1 : place + 1 + len(table)] = table
        self._staging.send(packing.num_words)
        self._graphs.run(_KEY, self._write_all)
        return True

    def _write_all(self) -> Tensor:
        from antiphon.nn.kernels.row_writes import write_counted_rows

        for number in range(_NUM_TABLES):
            write_counted_rows(self._words, number * _TABLE_WORDS, _MAX_ROWS)
        return self._words


class PackedUpload:
    """Numbers for several tensors in one copy to the device, where they are scattered.

    A copy, and a kernel that writes a single number, take the host as long as others that do a
    thousand times as much: so one copy and one launch write all that they can, in the order of
    addition.
    """

    def __init__(self, device: torch.device, writer: RowWriter | None = None) -> None:
        """Start empty; `send` writes through ``writer`` if the numbers fit."""
        self._device = device
        self._writer = writer
        # Calls, and writes of disjoint numbers by the address of their storage.
        self._steps: list[_Call | dict[int, RowWrite]] = []
        self._after: list[Callable[[], object]] = []

    def add(self, function: Callable[..., object], *arrays: NDArray[Any]) -> None:
        """Call ``function`` with ``arrays`` as tensors on `send`.

        Integers become int64, other numbers float64.
        """
        kinds = [np.float64 if array.dtype.kind == "f" else np.int64 for array in arrays]
        numbers = [np.asarray(*each) for each in zip(arrays, kinds, strict=True)]
        self._steps.append((function, numbers))

    def write(self, target: Tensor, rows: NDArray[Any], values: NDArray[Any]) -> None:
        """Write the first numbers of some rows.

        Args:
            target: contiguous tensor of one of `NUMPY_TYPES`.
            rows: distinct rows, ``[num_rows]``.
            values: ``[num_rows]``, or ``[num_rows, num_values]``.
        """
        if len(rows):
            source = np.asarray(values, NUMPY_TYPES[target.dtype]).reshape(len(rows), -1)
            self._write(target, rows, source.shape[1], source)

    def write_first(self, target: Tensor, values: NDArray[Any]) -> None:
        """Write the first numbers of a one-dimensional tensor."""
        self.write(target[None], np.zeros(1, np.int64), values[None])

    def copy(self, target: Tensor, rows: NDArray[Any], source: Tensor) -> None:
        """Write one row into several distinct rows.

        Args:
            target: contiguous tensor of any type.
            rows: ``[num_rows]``.
            source: tensor on the device, of the same type, that this upload does not change:
                ``[1]`` to fill rows with a number, or ``[num_values]``.
        """
        if len(rows):
            num_values = target[0].numel() if len(source) == 1 else len(source)
            self._write(target, rows, num_values, source)

    def after(self, function: Callable[[], object]) -> None:
        """Call ``function`` once all numbers have been sent; it reads some of them."""
        self._after.append(function)

    def send(self) -> None:
        """Copy on the current stream, and apply all that was added since the last call."""
        steps, self._steps = self._steps, []
        after, self._after = self._after, []
        if steps and not self._is_written(steps):
            self._launch(steps)
        for function in after:
            function()

    def _launch(self, steps: Sequence[_Call | dict[int, RowWrite]]) -> None:
        """Apply steps one after the other, each by launches of its own."""
        packing = Packing()
        packed = [
            packed_writes([*step.values()], packing)
            if isinstance(step, dict)
            else _packed_call(*step, packing)
            for step in steps
        ]
        words = upload(np.concatenate(packing.parts), self._device)
        for apply in packed:
            apply(words)

    def _is_written(self, steps: Sequence[_Call | dict[int, RowWrite]]) -> bool:
        """Apply all steps by the writer; return whether it can."""
        groups = [[*step.values()] for step in steps if isinstance(step, dict)]
        if self._writer is None or len(groups) < len(steps):
            return False
        return self._writer.write(groups)

    def _write(
        self, target: Tensor, rows: NDArray[Any], num_values: int, source: NDArray[Any] | Tensor
    ) -> None:
        storage = target.untyped_storage().data_ptr()
        last = self._steps[-1] if self._steps else None
        if not isinstance(last, dict) or storage in last:
            last = {}
            self._steps.append(last)
        last[storage] = RowWrite(target, np.asarray(rows, np.int64), num_values, source)


def _packed_call(
    function: Callable[..., object], arrays: Sequence[NDArray[Any]], packing: Packing
) -> _Apply:
    places = [packing.add(array) for array in arrays]

    def call(words: Tensor) -> None:
        tensors = []
        for place, array in zip(places, arrays, strict=True):
            kind = torch.float64 if array.dtype.kind == "f" else torch.int64
            tensors.append(words[place].view(kind).view(array.shape))
        function(*tensors)

    return call


def packed_writes(writes: Sequence[RowWrite], packing: Packing) -> _Apply:
    """Pack disjoint writes for one launch, or for PyTorch operations."""
    if not kernels.run_on(writes[0].target):
        placed = [_placed(write, packing) for write in writes]
        return lambda words: [place(words) for place in placed]
    from antiphon.nn.kernels.row_writes import write_rows

    place = packing.add(np.array(write_table(writes, packing), np.int64))
    return lambda words: write_rows(words[place], words)


def write_table(writes: Sequence[RowWrite], packing: Packing) -> list[int]:
    """Return the table of `antiphon.nn.kernels.row_writes.write_rows`, and pack the numbers.

    Plain Python integers: nearly all writes are of one row, for which arrays take ten times as
    long.
    """
    table: list[int] = []
    for write in writes:
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
        for row in write.rows.tolist():
            table += (first + row * row_bytes, place, *rest)
            place += step
    return table


def _placed(write: RowWrite, packing: Packing) -> _Apply:
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
