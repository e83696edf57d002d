"""CUDA graphs: a step of a thousand small kernels, launched as one.

A function is captured once per key, which holds all that the host decides: numbers of rows and of
positions, and the filters in use. It reads and writes tensors with fixed addresses, whose contents
the host changes. Without a GPU, the function is called directly.
"""

import contextlib
import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor

from antiphon.nn.cuda.devices import explained_shortage

_CAPTURING = threading.Lock()  # several engines may share a device


class Graphs:
    """CUDA graphs of one engine, their stream and their memory; for one thread at a time."""

    def __init__(self, device: torch.device, *, is_enabled: bool = True, priority: int = 0) -> None:
        """Start without graphs; streams with lower ``priority`` run first."""
        is_cuda = device.type == "cuda"
        self.is_enabled = is_enabled and is_cuda
        self._stream: torch.cuda.Stream | None = None
        if is_cuda:
            self._stream = torch.cuda.Stream(device, priority=priority)  # type: ignore[no-untyped-call]
        self._captured: dict[Hashable, tuple[torch.cuda.CUDAGraph, Tensor]] = {}
        self._pool = torch.cuda.graph_pool_handle() if self.is_enabled else None

    def __contains__(self, key: Hashable) -> bool:
        return key in self._captured

    def on_stream(self) -> AbstractContextManager[object]:
        if self._stream is None:
            return contextlib.nullcontext()
        return torch.cuda.stream(self._stream)

    def capture(self, key: Hashable, function: Callable[[], Tensor]) -> None:
        """Run ``function`` once, then capture it; running it must be harmless.

        Its intermediate results share memory with those of all other graphs; its result has a fixed
        address.
        """
        assert self._stream is not None
        with _CAPTURING, explained_shortage(), self.on_stream():
            function()
            self._stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                result = function()
            finally:
                graph.capture_end()
        self._captured[key] = graph, result

    def run(self, key: Hashable, function: Callable[[], Tensor]) -> Tensor:
        """Replay the graph of ``key``, or call ``function``, on the current stream.

        Returns:
            The function's result, valid until the next run of the same key.
        """
        captured = self._captured.get(key)
        if captured is None:
            return function()
        graph, result = captured
        graph.replay()
        return result

    def settle(self) -> None:
        """Free the temporary memory of captures; called after the last capture."""
        if self._stream is not None:
            self._stream.synchronize()
            torch.cuda.empty_cache()

    def clear(self) -> None:
        self._captured.clear()


def buckets(largest: int, *, smallest: int = 1, factor: int = 2) -> tuple[int, ...]:
    """Return the sizes to which numbers up to ``largest`` are rounded up."""
    sizes = [min(smallest, largest)]
    while sizes[-1] < largest:
        sizes.append(min(sizes[-1] * factor, largest))
    return tuple(sizes)


def round_up(number: int, sizes: Sequence[int]) -> int:
    """Return the first of ascending ``sizes`` that is at least ``number``."""
    return next(size for size in sizes if size >= number)
