"""Batches made by a thread while the device computes."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetch(Generic[T]):
    """Iterator over another one, whose next items a thread makes ahead."""

    def __init__(self, source: Iterator[T], depth: int = 8) -> None:
        """Begin to make ``depth`` items."""
        self._source = source
        self._thread = ThreadPoolExecutor(1)
        self._waiting: list[Future[T]] = [self._order() for _ in range(depth)]

    def __iter__(self) -> Iterator[T]:
        try:
            while True:
                self._waiting.append(self._order())
                try:
                    item = self._waiting.pop(0).result()
                except StopIteration:
                    return
                yield item
        finally:
            self._thread.shutdown(cancel_futures=True)

    def _order(self) -> Future[T]:
        return self._thread.submit(next, self._source)
