"""Host changes to device tensors, sent as one copy per step."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.nn.host_device import upload
from antiphon.nn.row_writer import RowWriter
from antiphon.nn.row_writes import NUMPY_TYPES, Packing, RowWrite, packed_writes


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
        self._steps: list[_Call | _Writes] = []
        self._after: list[Callable[[], object]] = []

    def add(self, function: Callable[..., object], *arrays: NDArray[Any]) -> None:
        """Call ``function`` with ``arrays`` as tensors on `send`.

        Integers become int64, other numbers float64.
        """
        self._steps.append(_Call(function, arrays))

    def write(self, target: Tensor, rows: NDArray[Any], values: NDArray[Any]) -> None:
        """Write the first numbers of some rows.

        Args:
            target: contiguous tensor of one of `antiphon.nn.row_writes.NUMPY_TYPES`.
            rows: distinct rows, ``[num_rows]``.
            values: ``[num_rows]``, or ``[num_rows, num_values]``.
        """
        if not len(rows):
            return
        source = np.asarray(values, NUMPY_TYPES[target.dtype]).reshape(len(rows), -1)
        self._write(RowWrite(target, _int64(rows), source.shape[1], source))

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
        if not len(rows):
            return
        num_values = target[0].numel() if len(source) == 1 else len(source)
        self._write(RowWrite(target, _int64(rows), num_values, source))

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

    def _launch(self, steps: Sequence["_Call | _Writes"]) -> None:
        """Apply steps one after the other, each by launches of its own."""
        packing = Packing()
        packed = [step.packed(packing) for step in steps]
        words = upload(packing.words(), self._device)
        for carry_out in packed:
            carry_out(words)

    def _is_written(self, steps: Sequence["_Call | _Writes"]) -> bool:
        """Apply all steps by the writer; return whether it can."""
        if self._writer is None:
            return False
        groups = [step.writes for step in steps if isinstance(step, _Writes)]
        return len(groups) == len(steps) and self._writer.write(groups)

    def _write(self, write: RowWrite) -> None:
        last = self._steps[-1] if self._steps else None
        if not isinstance(last, _Writes) or not last.has_room_for(write):
            last = _Writes()
            self._steps.append(last)
        last.add(write)


class _Call:
    """Deferred call of a function with numbers."""

    def __init__(self, function: Callable[..., object], arrays: tuple[NDArray[Any], ...]) -> None:
        self._function = function
        kinds = [np.float64 if array.dtype.kind == "f" else np.int64 for array in arrays]
        self._arrays = [np.asarray(*each) for each in zip(arrays, kinds, strict=True)]

    def packed(self, packing: Packing) -> Callable[[Tensor], object]:
        places = [packing.add(array) for array in self._arrays]

        def call(words: Tensor) -> None:
            tensors = []
            for place, array in zip(places, self._arrays, strict=True):
                numbers = words[place]
                is_float = array.dtype.kind == "f"
                tensors.append(
                    (numbers.view(torch.float64) if is_float else numbers).view(array.shape)
                )
            self._function(*tensors)

        return call


class _Writes:
    """Writes to disjoint numbers, which can be applied at once."""

    def __init__(self) -> None:
        self.writes: list[RowWrite] = []
        self._storages: set[int] = set()

    def has_room_for(self, write: RowWrite) -> bool:
        return write.storage not in self._storages

    def add(self, write: RowWrite) -> None:
        self.writes.append(write)
        self._storages.add(write.storage)

    def packed(self, packing: Packing) -> Callable[[Tensor], object]:
        return packed_writes(self.writes, packing)


def _int64(rows: NDArray[Any]) -> NDArray[np.int64]:
    return np.asarray(rows, np.int64)
