"""The progress of loading, from the threads that load to a stream."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, TypeAlias

_PAUSE_S = 0.1

ProgressNews: TypeAlias = tuple[str, int, int]
"""What is being read or prepared, how much of it is done, and how much there is."""


class ProgressRelay:
    """Keeps the latest progress of each part; `note` is called in any thread."""

    def __init__(self) -> None:
        """Begin with none, in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._latest: dict[str, ProgressNews] = {}
        self._changed = asyncio.Event()

    def note(self, part: str, done: int, total: int) -> None:
        """Note how far a part is."""
        self._loop.call_soon_threadsafe(self._note, (part, done, total))

    async def news(self, loading: "asyncio.Future[Any]") -> AsyncGenerator[ProgressNews, None]:
        """Yield the progress, a few times a second, until ``loading`` has ended."""
        loading.add_done_callback(lambda _: self._changed.set())
        while not loading.done():
            await self._changed.wait()
            self._changed.clear()
            latest, self._latest = self._latest, {}
            for each in latest.values():
                yield each
            if not loading.done():
                await asyncio.wait([loading], timeout=_PAUSE_S)

    def _note(self, news: ProgressNews) -> None:
        self._latest[news[0]] = news
        self._changed.set()
