"""Text that one task writes and another reads, and streams that run ahead of their reader."""

import asyncio
from typing import Generic, Protocol, TypeVar

from antiphon.concurrency import cancel_and_wait

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_ITEMS_AHEAD = 16


class TextBuffer:
    """A text that grows at its end; ``is_complete``: whether no more comes."""

    def __init__(self) -> None:
        self.is_complete = False
        self._text = ""
        self._num_taken = 0
        self._has_changed = asyncio.Event()

    @property
    def written(self) -> str:
        """What has come so far."""
        return self._text

    @property
    def taken(self) -> str:
        """What has been read so far."""
        return self._text[: self._num_taken]

    @property
    def has_unread(self) -> bool:
        """Whether `take` would return text at once."""
        return self._num_taken < len(self._text)

    def push(self, text: str) -> None:
        """Add to the end."""
        assert not self.is_complete, "text came after its end"
        self._text += text
        self._has_changed.set()

    def close(self) -> None:
        """Mark it as complete."""
        self.is_complete = True
        self._has_changed.set()

    async def take(self) -> str | None:
        """Return all that has come since the last call, waiting for some; ``None`` at the end."""
        while not self.has_unread and not self.is_complete:
            await self._changed()
        if not self.has_unread:
            return None
        start, self._num_taken = self._num_taken, len(self._text)
        return self._text[start:]

    async def whole(self) -> str:
        """Return all of it, once it is complete."""
        while not self.is_complete:
            await self._changed()
        self._num_taken = len(self._text)
        return self._text

    async def _changed(self) -> None:
        self._has_changed.clear()
        await self._has_changed.wait()


class Source(Protocol[T_co]):
    """A stream that is pulled by calls, so that its items pass no further generator."""

    async def next(self) -> T_co | None:
        """Return the next item; ``None`` at the end."""
        ...

    async def close(self) -> None:
        """Free what it holds, wherever it is; may be called again."""
        ...


class Prefetcher(Generic[T]):
    """A `Source` that pulls another one in a task of its own, a bounded number of items ahead."""

    def __init__(self, source: Source[T]) -> None:
        """Begin to pull."""
        self._source = source
        self._room = asyncio.Semaphore(MAX_ITEMS_AHEAD)
        self._ready: asyncio.Queue[T | None] = asyncio.Queue()
        self._pulling = asyncio.create_task(_pull(source, self._ready, self._room))
        self._pulling.add_done_callback(lambda _: self._ready.put_nowait(None))

    @property
    def is_empty(self) -> bool:
        """Whether all that has been pulled has been taken."""
        return self._ready.empty()

    async def next(self) -> T | None:
        """See `Source.next`; raises what the other one raises, in its turn."""
        item = await self._ready.get()
        if item is None:
            await self._pulling
        self._room.release()
        return item

    async def close(self) -> None:
        """See `Source.close`."""
        await cancel_and_wait(self._pulling)
        await self._source.close()


async def _pull(
    source: Source[T], ready: "asyncio.Queue[T | None]", room: asyncio.Semaphore
) -> None:
    while (item := await source.next()) is not None:
        await room.acquire()
        ready.put_nowait(item)
