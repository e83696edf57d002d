"""Text that grows on one side and is taken on the other, and streams that run a little ahead."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Generic, TypeVar

from antiphon.pipeline.speech.text import Boundary

T = TypeVar("T")

MAX_ITEMS_AHEAD = 16


class TextBuffer:
    """A text that one task writes and another reads.

    Attributes:
        joint: what joins it to the text before it.
        next_joint: what joins the next text to it, once it is complete; `Boundary.NONE` if there is
            none for certain.
    """

    def __init__(self, joint: Boundary = Boundary.NONE) -> None:
        self.joint = joint
        self.next_joint = Boundary.NONE
        self._parts: list[str] = []
        self._is_complete = False
        self._has_changed = asyncio.Event()

    def push(self, text: str) -> None:
        """Add to the end."""
        assert not self._is_complete, "text came after its end"
        self._parts.append(text)
        self._has_changed.set()

    def close(self, next_joint: Boundary = Boundary.NONE) -> None:
        """Say that no more comes, and what joins the next text to this one."""
        self.next_joint = next_joint
        self._is_complete = True
        self._has_changed.set()

    async def closed(self) -> None:
        """Return once it is complete; for whoever takes no more of it."""
        while not self._is_complete:
            self._has_changed.clear()
            await self._has_changed.wait()

    async def take(self) -> str | None:
        """Return all that has come since the last call, waiting for some; ``None`` at the end."""
        while not self._parts and not self._is_complete:
            self._has_changed.clear()
            await self._has_changed.wait()
        if not self._parts:
            return None
        text = "".join(self._parts)
        self._parts.clear()
        return text

    async def take_all(self) -> str:
        """Return the rest, once it is complete."""
        parts = []
        while (text := await self.take()) is not None:
            parts.append(text)
        return "".join(parts)


class Prefetcher(Generic[T]):
    """A stream that is pulled by a task of its own, a bounded number of items ahead."""

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        """Begin to pull."""
        self._room = asyncio.Semaphore(MAX_ITEMS_AHEAD)
        self._ready: asyncio.Queue[T | None] = asyncio.Queue()
        self._pulling = asyncio.create_task(self._pull(items))
        self._pulling.add_done_callback(lambda _: self._ready.put_nowait(None))

    async def items(self) -> AsyncGenerator[T, None]:
        """Yield what has been pulled, in order; raises what the stream raises."""
        while (item := await self._ready.get()) is not None:
            self._room.release()
            yield item
        await self._pulling

    async def close(self) -> None:
        """Close the stream, wherever it is; returns when it has freed what it held."""
        self._pulling.cancel()  # no-op if it has ended
        await asyncio.wait([self._pulling])
        if not self._pulling.cancelled():
            self._pulling.exception()  # nobody is left to be told

    async def _pull(self, items: AsyncGenerator[T, None]) -> None:
        async with aclosing(items):
            async for item in items:
                await self._room.acquire()
                self._ready.put_nowait(item)
