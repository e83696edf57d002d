"""Queues from an engine's threads to consumers on event loops."""

import asyncio
import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, Generic, TypeVar

from antiphon.contracts.picture_types import Progress

Item = TypeVar("Item")


class Outbox(Generic[Item]):
    """A queue from any thread to one consumer, on the event loop that makes it.

    Of several `Progress` in a row that are unread only the last one is kept, so that a slow
    consumer of an image holds little.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._items: deque[Item | Exception] = deque()
        self._has_items = asyncio.Event()

    def put(self, item: Item | Exception) -> bool:
        """Add an item, or what `get` raises; return whether the consumer's event loop is open."""
        return not put_all([(self, item)])

    async def get(self) -> Item:
        """Return the next item, or raise it; has one caller at a time."""
        while True:
            with self._lock:
                if self._items:
                    item = self._items.popleft()
                    break
                self._has_items.clear()
            await self._has_items.wait()
        if isinstance(item, Exception):
            raise item
        return item

    def add(self, item: Item | Exception) -> bool:
        """Add an item; return whether the consumer must be woken by `wake`."""
        with self._lock:
            if self._items and isinstance(item, Progress) and isinstance(self._items[-1], Progress):
                self._items[-1] = item
                return False
            self._items.append(item)
            return len(self._items) == 1

    def wake(self) -> None:
        """Wake the consumer; called on its event loop."""
        self._has_items.set()


def put_all(items: Iterable[tuple[Outbox[Any], Any]]) -> list[asyncio.AbstractEventLoop]:
    """Add items to outboxes by one call for each event loop; return the loops that are closed."""
    waiting: dict[asyncio.AbstractEventLoop, list[Outbox[Any]]] = {}
    for outbox, item in items:
        outboxes = waiting.setdefault(outbox.loop, [])
        if outbox.add(item):
            outboxes.append(outbox)
    closed = []
    for loop, outboxes in waiting.items():
        try:
            if outboxes or loop.is_closed():
                loop.call_soon_threadsafe(wake_all, outboxes)
        except RuntimeError:  # it is closed
            closed.append(loop)
    return closed


def wake_all(outboxes: Iterable[Outbox[Any]]) -> None:
    """Wake the consumers of outboxes of the running event loop."""
    for outbox in outboxes:
        outbox.wake()
