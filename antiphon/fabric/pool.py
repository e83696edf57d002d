"""Pool of loaded models: all of them, or those that requests need, as memory allows.

A model that is idle for longest makes room for one that is wanted, and one that is idle for too
long is unloaded.
"""

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from antiphon.config import ModelsSettings
from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.errors import ModelLoadingError
from antiphon.fabric.base import Fabric, Placement
from antiphon.stages.base import StageHandle

logger = logging.getLogger(__name__)

RETRY_AFTER_S = 5.0


@dataclass(eq=False, slots=True)
class PooledModel:
    """The stages of one model, and who uses them; changed by its pool only.

    Attributes:
        groups: its stages, first to last; those of a group share a device.
        handles: handles of the groups; empty while they are not loaded.
        idle_since_s: time at which the last user left, or the model was loaded.
    """

    groups: Sequence[Sequence[StageSpec]]
    context: LoadContext
    placements: Sequence[Placement]
    handles: tuple[StageHandle, ...] = ()
    num_users: int = 0
    idle_since_s: float = 0.0

    @property
    def num_bytes(self) -> int:
        """Estimated memory of its stages."""
        groups = zip(self.groups, self.placements, strict=True)
        placed = [(specs, placement.context_of(self.context, 0)) for specs, placement in groups]
        return sum(spec.num_bytes(context) for specs, context in placed for spec in specs)


class ModelPool:
    """Loads models into a fabric and unloads them, one at a time."""

    def __init__(self, fabric: Fabric, limits: ModelsSettings | None = None) -> None:
        """Begin with no model; one is loaded whatever memory it needs."""
        self.fabric = fabric
        self._limits = limits or ModelsSettings()
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()
        self._models: list[PooledModel] = []
        self._loaded: list[PooledModel] = []
        self._loading: dict[PooledModel, asyncio.Task[None]] = {}

    def add(self, model: PooledModel) -> None:
        """Take in a model, which is not loaded yet."""
        self._models.append(model)

    @asynccontextmanager
    async def held(self, model: PooledModel) -> AsyncGenerator[tuple[StageHandle, ...], None]:
        """Keep a model loaded for as long as the block lasts; load it before if it is not.

        Raises:
            ModelLoadingError: it is not loaded in time; loading goes on.
            ModelLoadError: it cannot be served.
        """
        model.num_users += 1
        try:
            if not model.handles:
                await self._wait_for(model)
            yield model.handles
        finally:
            model.num_users -= 1
            if not model.num_users:
                model.idle_since_s = asyncio.get_running_loop().time()
                self._freed.set()

    async def preload(self) -> None:
        """Load models in the order in which they were added, as many as there is room for.

        Raises:
            ModelLoadError: one cannot be served.
        """
        for model in self._models:
            if not self._fits(model):
                return
            await self._load(model)

    async def sweep(self) -> None:
        """Unload what has been idle for too long, for ever."""
        while idle_s := self._limits.idle_s:
            await asyncio.sleep(idle_s / 4)
            async with self._turn:
                too_early_s = asyncio.get_running_loop().time() - idle_s
                for model in tuple(self._loaded):
                    if not model.num_users and model.idle_since_s < too_early_s:
                        await self._unload(model)

    async def remove(self, model: PooledModel) -> None:
        """Unload a model for good; one that is being loaded is waited for by nothing."""
        self._models.remove(model)
        if (loading := self._loading.pop(model, None)) is not None:
            loading.cancel()
            await asyncio.wait([loading])
        if model in self._loaded:
            self._loaded.remove(model)
        await self._release(model)

    async def _wait_for(self, model: PooledModel) -> None:
        loading = self._loading.get(model)
        if loading is None:
            loading = asyncio.create_task(self._load(model), name="load model")
            self._loading[model] = loading
            loading.add_done_callback(lambda ended: self._ended(model, ended))
        await asyncio.wait([loading], timeout=self._limits.wait_s)
        if not loading.done():
            raise ModelLoadingError("The model is being loaded.", retry_after_s=RETRY_AFTER_S)
        loading.result()

    def _ended(self, model: PooledModel, loading: "asyncio.Task[None]") -> None:
        self._loading.pop(model, None)
        if not loading.cancelled() and (error := loading.exception()) is not None:
            logger.error("a model could not be loaded: %s", error)

    async def _load(self, model: PooledModel) -> None:
        async with self._turn:
            while not self._fits(model):
                await self._make_room()
            handles: list[StageHandle] = []
            try:
                for specs, placement in zip(model.groups, model.placements, strict=True):
                    handles.append(await self.fabric.host(specs, model.context, placement))
            finally:
                if len(handles) < len(model.groups):
                    for handle in handles:
                        await self.fabric.release(handle)
            model.handles = tuple(handles)
            model.idle_since_s = asyncio.get_running_loop().time()
            self._loaded.append(model)

    def _fits(self, model: PooledModel) -> bool:
        """Whether a model may be loaded beside those that are."""
        if not self._loaded:
            return True
        if 0 < self._limits.max_loaded <= len(self._loaded):
            return False
        num_bytes = sum(each.num_bytes for each in (*self._loaded, model))
        max_bytes = int(self._limits.max_gib * 2**30)
        return not max_bytes or num_bytes <= max_bytes

    async def _make_room(self) -> None:
        """Unload the model that has been idle for longest, waiting until there is one."""
        while not (idle := [each for each in self._loaded if not each.num_users]):
            self._freed.clear()
            await self._freed.wait()
        await self._unload(min(idle, key=lambda each: each.idle_since_s))

    async def _unload(self, model: PooledModel) -> None:
        self._loaded.remove(model)
        await self._release(model)
        await asyncio.to_thread(gc.collect)  # now, or the next model finds no room
        logger.info("an idle model has been unloaded")

    async def _release(self, model: PooledModel) -> None:
        handles, model.handles = model.handles, ()
        for handle in handles:
            await self.fabric.release(handle)
