"""Queues from an engine's threads to consumers on event loops."""

import asyncio
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
        self._items: deque[Item | Exception] = deque()
        self._has_items = asyncio.Event()

    def put(self, item: Item | Exception) -> bool:
        """Add an item, or what `get` raises; return whether the consumer's event loop is open."""
        return not put_all([(self, item)])

    async def get(self) -> Item:
        """Return the next item, or raise it; has one caller at a time."""
        while not self._items:
            self._has_items.clear()
            await self._has_items.wait()
        item = self._items.popleft()
        if isinstance(item, Exception):
            raise item
        return item

    def receive(self, item: Item | Exception) -> None:
        """Add an item; called on the consumer's event loop."""
        if isinstance(item, Progress) and self._items and isinstance(self._items[-1], Progress):
            self._items[-1] = item
        else:
            self._items.append(item)
        self._has_items.set()


def put_all(items: Iterable[tuple[Outbox[Any], Any]]) -> list[asyncio.AbstractEventLoop]:
    """Add items to outboxes by one call for each event loop; return the loops that are closed."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[Outbox[Any], Any]]] = {}
    for outbox, item in items:
        by_loop.setdefault(outbox.loop, []).append((outbox, item))
    closed = []
    for loop, received in by_loop.items():
        try:
            loop.call_soon_threadsafe(receive_all, received)
        except RuntimeError:  # it is closed
            closed.append(loop)
    return closed


def receive_all(items: Iterable[tuple[Outbox[Any], Any]]) -> None:
    """Add items to outboxes of the running event loop."""
    for outbox, item in items:
        outbox.receive(item)
