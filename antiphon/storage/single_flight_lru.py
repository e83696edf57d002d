"""Keeps the results of the last calls that were worth keeping, and makes each of them once."""

from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SingleFlightLRU(Generic[K, V]):
    """Results by key, the least recently used forgotten first; safe for threads."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[K, Future[V]] = OrderedDict()
        self._lock = Lock()

    def __contains__(self, key: K) -> bool:
        """Whether there is a result of this key, or somebody is making it."""
        with self._lock:
            return key in self._entries

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the result of ``make()``, or the one that it gave for this key before.

        While it is being made, others who ask for it wait; if it fails, so do they, and the next
        one tries again.
        """
        made: Future[V] = Future()
        with self._lock:
            entry = self._entries.setdefault(key, made)
            self._entries.move_to_end(key)
            if len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
        if entry is made:
            try:
                made.set_result(make())
            except BaseException as error:
                with self._lock:
                    if self._entries.get(key) is made:
                        del self._entries[key]
                made.set_exception(error)
                raise
        return entry.result()
