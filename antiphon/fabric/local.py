"""The default fabric: every stage in this process, no broker, no second process."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext

from antiphon.fabric.base import Stage, StageRequest, StageStream
from antiphon.models.base import Piece


class LocalFabric:
    """Keeps stages by name and counts their open streams."""

    def __init__(self) -> None:
        self._stages: dict[str, Stage] = {}
        self._num_open = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def host(self, name: str, build: Callable[[], Stage]) -> None:
        self._stages[name] = await asyncio.to_thread(build)

    async def open(
        self, name: str, request: StageRequest, upstream: StageStream | None
    ) -> StageStream:
        self._num_open += 1
        self._idle.clear()
        try:
            async with aclosing(self._stages[name].open(request, upstream)) as stream:
                async for item in stream:
                    yield item
        finally:
            self._num_open -= 1
            if not self._num_open:
                self._idle.set()

    def held(self) -> AbstractAsyncContextManager[None]:
        return nullcontext()

    def append(self, name: str, request_id: str, piece: Piece) -> None:
        self._stages[name].append(request_id, piece)

    @property
    def num_open(self) -> int:
        return self._num_open

    @property
    def failure(self) -> str | None:
        return next((found for each in self._stages.values() if (found := each.failure)), None)

    @property
    def stalled_s(self) -> float:
        return max((each.stalled_s for each in self._stages.values()), default=0.0)

    async def drain(self) -> None:
        await self._idle.wait()

    async def close(self) -> None:
        for stage in self._stages.values():
            await stage.close()
        self._stages.clear()
