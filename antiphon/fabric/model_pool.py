"""Stages that are loaded when a stream wants them, and leave the memory when nobody does.

`ModelPool` is what all models of a server share: it knows which of them are loaded, lets the one
that is idle for longest make room, and sends those away that are idle for too long.
"""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager

from antiphon.errors import ModelLoadingError
from antiphon.fabric.base import Stage, StageRequest, StageStream
from antiphon.fabric.local import LocalFabric
from antiphon.models.base import Piece

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 5.0


class LazyFabric:
    """The stages of one model, in this process while they are wanted."""

    def __init__(self, memory: "ModelPool") -> None:
        self._memory = memory
        memory.fabrics.append(self)
        self._builders: dict[str, Callable[[], Stage]] = {}
        self._loaded: LocalFabric | None = None
        self.num_users = 0
        self.idle_since_s = 0.0

    async def host(self, name: str, build: Callable[[], Stage]) -> None:
        self._builders[name] = build

    async def open(
        self, name: str, request: StageRequest, upstream: StageStream | None
    ) -> StageStream:
        async with (
            self._memory.held(self) as loaded,
            aclosing(loaded.open(name, request, upstream)) as stream,
        ):
            async for item in stream:
                yield item

    def held(self) -> AbstractAsyncContextManager[LocalFabric]:
        return self._memory.held(self)

    def append(self, name: str, request_id: str, piece: Piece) -> None:
        if self._loaded is not None:
            self._loaded.append(name, request_id, piece)

    async def load(self) -> LocalFabric:
        """Build all stages, off the event loop.

        Raises:
            ModelLoadError: the checkpoint cannot be served.
        """
        if self._loaded is None:
            fabric = LocalFabric()
            for name, build in self._builders.items():
                await fabric.host(name, build)
            self._loaded = fabric
        return self._loaded

    async def unload(self) -> None:
        """Free what loading took; does nothing if it is free."""
        fabric, self._loaded = self._loaded, None
        if fabric is not None:
            await fabric.close()

    @property
    def is_loaded(self) -> bool:
        return self._loaded is not None

    @property
    def num_open(self) -> int:
        return self._loaded.num_open if self._loaded else 0

    @property
    def failure(self) -> str | None:
        return self._loaded.failure if self._loaded else None

    @property
    def stalled_s(self) -> float:
        return self._loaded.stalled_s if self._loaded else 0.0

    async def drain(self) -> None:
        if self._loaded is not None:
            await self._loaded.drain()

    async def close(self) -> None:
        await self._memory.forget(self)
        await self.unload()


class ModelPool:
    """Which models are loaded: one is loaded or unloaded at a time."""

    def __init__(self, *, max_loaded: int = 0, idle_s: float = 0.0, wait_s: float = 30.0) -> None:
        """Begin with none.

        Args:
            max_loaded: at once; 0: all.
            idle_s: one that nobody wants for longer is unloaded by `sweep`; 0: never.
            wait_s: how long a stream waits for its model.
        """
        self._max_loaded = max_loaded
        self._idle_s = idle_s
        self._wait_s = wait_s
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        self.fabrics: list[LazyFabric] = []
        self._loaded: list[LazyFabric] = []
        self._loading: dict[LazyFabric, asyncio.Task[LocalFabric]] = {}

    @asynccontextmanager
    async def held(self, fabric: LazyFabric) -> AsyncGenerator[LocalFabric, None]:
        """Keep a model in memory for as long as the block lasts; load it before if it is not there.

        Raises:
            ModelLoadingError: it is not there in time; it goes on loading.
            ModelLoadError: it cannot be served.
        """
        fabric.num_users += 1
        try:
            yield await self._get(fabric)
        finally:
            fabric.num_users -= 1
            if not fabric.num_users:
                fabric.idle_since_s = asyncio.get_running_loop().time()
                self._freed.set()

    async def preload(self) -> None:
        """Load models in the order in which they came, as many as there is room for.

        Raises:
            ModelLoadError: one cannot be served.
        """
        for fabric in self.fabrics[: self._max_loaded or None]:
            await self._load(fabric)

    async def sweep(self) -> None:
        """Unload what has been idle for too long, for ever."""
        while self._idle_s:
            await asyncio.sleep(self._idle_s / 4)
            async with self._turn:
                too_early_s = asyncio.get_running_loop().time() - self._idle_s
                for fabric in tuple(self._loaded):
                    if not fabric.num_users and fabric.idle_since_s < too_early_s:
                        await self._unload(fabric)

    async def forget(self, fabric: LazyFabric) -> None:
        """Give up loading a model that is to be closed, and count it no longer."""
        if (loading := self._loading.pop(fabric, None)) is not None:
            loading.cancel()
            await asyncio.wait([loading])
        if fabric in self._loaded:
            self._loaded.remove(fabric)

    async def _get(self, fabric: LazyFabric) -> LocalFabric:
        if fabric.is_loaded:
            return await fabric.load()
        loading = self._loading.get(fabric)
        if loading is None:
            loading = asyncio.create_task(self._load(fabric), name="load model")
            self._loading[fabric] = loading
            loading.add_done_callback(lambda ended: self._ended(fabric, ended))
        await asyncio.wait([loading], timeout=self._wait_s)
        if not loading.done():
            raise ModelLoadingError("The model is being loaded.", retry_after_s=RETRY_AFTER_S)
        return loading.result()

    def _ended(self, fabric: LazyFabric, loading: "asyncio.Task[LocalFabric]") -> None:
        self._loading.pop(fabric, None)
        if not loading.cancelled() and (error := loading.exception()) is not None:
            logger.error("a model could not be loaded: %s", error)

    async def _load(self, fabric: LazyFabric) -> LocalFabric:
        async with self._turn:
            while self._max_loaded and len(self._loaded) >= self._max_loaded:
                await self._make_room()
            loaded = await fabric.load()
            fabric.idle_since_s = asyncio.get_running_loop().time()
            self._loaded.append(fabric)
            return loaded

    async def _make_room(self) -> None:
        """Unload the model that has been idle for longest, waiting until there is one."""
        while not (idle := [each for each in self._loaded if not each.num_users]):
            self._freed.clear()
            await self._freed.wait()
        await self._unload(min(idle, key=lambda each: each.idle_since_s))

    async def _unload(self, fabric: LazyFabric) -> None:
        self._loaded.remove(fabric)
        await fabric.unload()
        await asyncio.to_thread(gc.collect)  # now, or the next model finds no room
        logger.info("a model that was idle has left the memory")
