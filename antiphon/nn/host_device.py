"""Numbers between host and device, without either waiting for the other before it must."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def upload(
    values: Sequence[int] | Sequence[tuple[int, ...]] | NDArray[Any], device: torch.device
) -> Tensor:
    """Return numbers as a tensor on the device, integers as int64; the stream orders the copy."""
    array = np.asarray(values)
    if array.dtype.kind != "f":
        array = array.astype(np.int64)
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


@dataclass(frozen=True, slots=True)
class _Write:
    """What is to be done with numbers once they are on the device."""

    arrays: tuple[NDArray[Any], ...]
    function: Callable[..., object]


class PackedUpload:
    """Numbers of many owners in one copy to the device; then each writes its own where it keeps it.

    A copy takes the host as long as a kernel's launch or two, however little is in it.
    """

    def __init__(self, device: torch.device) -> None:
        """Begin without numbers; they are not sent before `send`."""
        self._device = device
        self._writes: list[_Write] = []

    def add(self, function: Callable[..., object], *arrays: NDArray[Any]) -> None:
        """Have ``function`` called with ``arrays`` as tensors, after all that was added before.

        Integers become int64, other numbers float64.
        """
        self._writes.append(_Write(arrays, function))

    def send(self) -> None:
        """Copy on the current stream, and have everything written."""
        writes, self._writes = self._writes, []
        if not writes:
            return
        packed = [_words(array) for write in writes for array in write.arrays]
        parts = iter(torch.split(upload(np.concatenate(packed), self._device), [*map(len, packed)]))
        for write in writes:
            tensors = []
            for array, part in zip(write.arrays, parts, strict=False):
                values = part.view(torch.float64) if array.dtype.kind == "f" else part
                tensors.append(values.view(array.shape))
            write.function(*tensors)


def _words(array: NDArray[Any]) -> NDArray[np.int64]:
    """Return an array's numbers in 64 bits each, end to end."""
    if array.dtype.kind == "f":
        return np.ascontiguousarray(array, np.float64).reshape(-1).view(np.int64)
    return array.astype(np.int64, copy=False).reshape(-1)


class Download:
    """A copy to the host under way."""

    def __init__(self, tensor: Tensor) -> None:
        """Begin to copy on the current stream; ``tensor`` may be overwritten by later work."""
        self._event: torch.cuda.Event | None = None
        self._device, self._host = tensor.device, tensor
        if tensor.is_cuda:
            self._host = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
            self._host.copy_(tensor, non_blocking=True)
            # Whoever waits for it sleeps: the host's threads need the cores.
            self._event = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            self._event.record()

    @property
    def is_done(self) -> bool:
        return self._event is None or bool(self._event.query())  # type: ignore[no-untyped-call]

    def wait(self) -> Tensor:
        """Return the copy when it is complete; in any thread."""
        if self._event is not None:
            with torch.cuda.device(self._device):  # a thread's first call would take up device 0
                self._event.synchronize()
        return self._host
