"""What an engine's thread hands to one consumer on an event loop, which may be slow."""

import asyncio
import threading
from collections import deque
from typing import Generic, TypeVar

from antiphon.contracts.picture_types import Progress

Item = TypeVar("Item")


class Outbox(Generic[Item]):
    """A queue to an event loop; made on that loop.

    `put` never waits. Of several `Progress` in a row that nobody has read yet the last one is
    kept, so that what waits is bounded by everything else.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._items: deque[Item] = deque()
        self._has_items = asyncio.Event()

    def put(self, item: Item) -> bool:
        """Add an item, in any thread; returns whether the consumer's event loop still runs."""
        with self._lock:
            if self._items and isinstance(item, Progress) and isinstance(self._items[-1], Progress):
                self._items[-1] = item
                return True
            self._items.append(item)
            is_first = len(self._items) == 1
        if is_first:
            try:
                self._loop.call_soon_threadsafe(self._has_items.set)
            except RuntimeError:  # it is closed
                return False
        return True

    async def get(self) -> Item:
        """Return the next item; has one caller at a time."""
        while True:
            with self._lock:
                if self._items:
                    return self._items.popleft()
                self._has_items.clear()
            await self._has_items.wait()
