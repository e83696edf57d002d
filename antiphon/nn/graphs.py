"""CUDA graphs: a step of a thousand small kernels, launched as one.

A function is captured once per key, which holds all that the host decides in it: numbers of rows,
of positions, which filters are in use. It reads and writes tensors that stay where they are, and
the host changes what is in them. Without a GPU the function is simply called.
"""

import contextlib
import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import torch
from torch import Tensor

_CAPTURING = threading.Lock()  # several engines may share a device


@dataclass(frozen=True, slots=True)
class _Captured:
    graph: torch.cuda.CUDAGraph
    result: Tensor


class Graphs:
    """The graphs of one engine, their stream and their memory; used by one thread at a time.

    Attributes:
        is_enabled: whether functions are captured at all.
    """

    def __init__(self, device: torch.device, *, is_enabled: bool = True, priority: int = 0) -> None:
        """Start without graphs; lower ``priority`` of the stream runs first."""
        is_cuda = device.type == "cuda"
        self.is_enabled = is_enabled and is_cuda
        self._stream: torch.cuda.Stream | None = None
        if is_cuda:
            self._stream = torch.cuda.Stream(device, priority=priority)  # type: ignore[no-untyped-call]
        self._captured: dict[Hashable, _Captured] = {}
        self._pool = torch.cuda.graph_pool_handle() if self.is_enabled else None

    def __contains__(self, key: Hashable) -> bool:
        return key in self._captured

    def __len__(self) -> int:
        return len(self._captured)

    def on_stream(self) -> AbstractContextManager[object]:
        """Return a context in which all work is put on the graphs' stream."""
        if self._stream is None:
            return contextlib.nullcontext()
        return torch.cuda.stream(self._stream)

    def capture(self, key: Hashable, function: Callable[[], Tensor]) -> None:
        """Run ``function`` once, then capture it; inputs must be such that running does no harm.

        Its intermediate results share memory with those of all other graphs; what it returns
        keeps its place.
        """
        assert self._stream is not None
        with _CAPTURING, self.on_stream():
            function()
            self._stream.synchronize()
            graph = torch.cuda.CUDAGraph()
            graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
            try:
                result = function()
            finally:
                graph.capture_end()
        self._captured[key] = _Captured(graph, result)

    def run(self, key: Hashable, function: Callable[[], Tensor]) -> Tensor:
        """Replay what was captured for ``key``, or call ``function``; on the current stream.

        Returns:
            What the function returns. It holds until the next run of the same key.
        """
        captured = self._captured.get(key)
        if captured is None:
            return function()
        captured.graph.replay()
        return captured.result

    def settle(self) -> None:
        """Give back the memory that capturing took for a while; called after the last capture."""
        if self._stream is not None:
            self._stream.synchronize()
            torch.cuda.empty_cache()

    def clear(self) -> None:
        """Free all graphs."""
        self._captured.clear()


def buckets(largest: int, *, smallest: int = 1, factor: int = 2) -> tuple[int, ...]:
    """Return the sizes that a number up to ``largest`` is rounded up to."""
    sizes = [min(smallest, largest)]
    while sizes[-1] < largest:
        sizes.append(min(sizes[-1] * factor, largest))
    return tuple(sizes)


def round_up(number: int, sizes: Sequence[int]) -> int:
    """Return the first of ascending ``sizes`` that is not below ``number``; the last is not."""
    return next(size for size in sizes if size >= number)
