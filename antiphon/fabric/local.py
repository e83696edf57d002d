"""The default fabric: every stage in this process, no broker, no second process."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.prompt import Piece
from antiphon.fabric.base import Placement
from antiphon.stages.base import Stage, StageBuilder, StageHandle, StageRequest, StageStream
from antiphon.telemetry.stage_status import StageStatus


class LocalFabric:
    """Keeps stages by handle, with the status that each has published last.

    Attributes:
        open_remote: opens streams of stages that are not loaded here.
    """

    def __init__(self, build: StageBuilder) -> None:
        """Begin without stages; ``build`` makes them."""
        self._build = build
        self._stages: dict[StageHandle, Stage] = {}
        self._statuses: dict[StageHandle, StageStatus] = {}
        self._num_bytes: dict[StageHandle, int] = {}
        self._numbers = count()
        self._drains: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []
        self.open_remote: Callable[[StageHandle, StageRequest], StageStream] | None = None

    @property
    def handles(self) -> tuple[StageHandle, ...]:
        return tuple(self._stages)

    async def host(
        self, specs: Sequence[StageSpec], context: LoadContext, placement: Placement
    ) -> StageHandle:
        name = "+".join(spec.name for spec in specs)
        handle = StageHandle(f"{name}-{next(self._numbers)}")
        placed = placement.context_of(context, 0)
        publish = partial(self._publish, handle)
        self._num_bytes[handle] = sum(spec.num_bytes(placed) for spec in specs)
        self._statuses[handle] = StageStatus()
        try:
            self._stages[handle] = await asyncio.to_thread(self._build, specs, placed, publish)
        finally:
            if handle not in self._stages:
                del self._statuses[handle], self._num_bytes[handle]
        return handle

    def open(self, handle: StageHandle, request: StageRequest) -> StageStream:
        if self.open_remote is not None and handle not in self._stages:
            return self.open_remote(handle, request)
        upstream: StageStream | None = None
        if request.upstream:
            *before, last = request.upstream
            upstream = self.open(last, replace(request, upstream=tuple(before)))
        return self._stages[handle].open(request, upstream)

    def append(self, handle: StageHandle, request_id: str, piece: Piece) -> None:
        self._stages[handle].append(request_id, piece)

    def abort(self, handle: StageHandle, request_id: str) -> None:
        self._stages[handle].abort(request_id)

    def status(self, handle: StageHandle) -> StageStatus:
        return replace(self._statuses[handle], num_bytes=self._num_bytes[handle])

    @property
    def num_open(self) -> int:
        return sum(each.num_open for each in tuple(self._statuses.values()))

    async def drain(self) -> None:
        drain = asyncio.get_running_loop(), asyncio.Event()
        self._drains.append(drain)
        try:
            while self.num_open:
                drain[1].clear()
                await drain[1].wait()
        finally:
            self._drains.remove(drain)

    async def release(self, handle: StageHandle) -> None:
        await self._stages.pop(handle).close()
        del self._statuses[handle], self._num_bytes[handle]

    def _publish(self, handle: StageHandle, status: StageStatus) -> None:
        if handle not in self._statuses:  # a request that outlives its stage
            return
        self._statuses[handle] = status  # twice a step: nothing is computed here
        for loop, changed in tuple(self._drains):
            loop.call_soon_threadsafe(changed.set)
