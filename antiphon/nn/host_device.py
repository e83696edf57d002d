"""Numbers between host and device, without either waiting for the other before it must."""

from collections.abc import Sequence
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
