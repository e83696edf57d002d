"""A task of a family made live: its stages loaded, warmed and opened."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterator
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self

from numpy.typing import NDArray

from antiphon.concurrency import LoopCalls, run_with_producer
from antiphon.config import ModelSettings
from antiphon.config.diffusion import DiffusionSettings
from antiphon.engine.admission import AdmissionLimits
from antiphon.errors import EngineError, ModelLoadError
from antiphon.fabric.base import StageHandle, StageItem, StageRequest
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.model_pool import ModelPool, PooledModel
from antiphon.models.base import Piece, Prompt
from antiphon.models.registry import further_names, plain_name, resolve, served_name
from antiphon.models.spec import Family, LoadContext, Task
from antiphon.pipeline.stage import build_stage, engine_groups
from antiphon.placement.model_placement import ModelPlacement, playback_policy
from antiphon.placement.schema import PlacementFile
from antiphon.telemetry.engine_stats import EngineStats
from antiphon.telemetry.stage_status import StageStatus
from antiphon.telemetry.tracing import until_first
from antiphon.types import Latents, LoadProgress, new_request_id

logger = logging.getLogger(__name__)


class LoadedTask:
    """A task of a model that is ready to serve requests."""

    def __init__(
        self,
        name: str,
        family: Family,
        task: Task,
        prompter: Any,
        pool: ModelPool,
        stages: PooledModel,
        *,
        path: Path | None = None,
        further_names: Collection[str] = (),
    ) -> None:
        """Wrap what has been loaded.

        Args:
            name: that requests use.
            family: of the model.
            task: of the family.
            prompter: of the task.
            pool: loads its stages.
            stages: that the pool loads.
            path: of its checkpoint, if it has one.
            further_names: that requests may use too; they are not listed.
        """
        self.name = name
        self.family = family
        self.task = task
        self.prompter = prompter
        self.fabric = pool.fabric
        self._pool = pool
        self._stages = stages
        self._first = int(stages.groups[0] == (task.encoder,))  # of the pipeline's groups
        self.path = path
        self._further_names = frozenset(further_names)

    @classmethod
    async def load(
        cls,
        settings: ModelSettings,
        task_name: str,
        *,
        progress: LoadProgress | None = None,
        pool: ModelPool | None = None,
        placement: ModelPlacement | None = None,
        diffusion: DiffusionSettings | None = None,
    ) -> Self:
        """Load a task's prompter and stages, off the event loop.

        Args:
            settings: which model, and on what device.
            task_name: of the task.
            progress: called, in other threads, with the progress of loading.
            pool: that loads the stages, now or later; default: they are loaded now, into this
                process.
            placement: of the stages; default: as the settings say.
            diffusion: how stages that denoise are run; default: as the defaults say.

        Raises:
            ModelLoadError: no family serves it, its family has no such task, or its checkpoint is
                wrong.
            SettingsError: the placement does not fit the stages.
        """
        family, path = await asyncio.to_thread(resolve, settings.source)
        task = family.tasks.get(task_name)
        if task is None:
            raise ModelLoadError(
                f"'{family.name}' does not serve '{task_name}', but: {', '.join(family.tasks)}."
            )
        name = settings.name or served_name(settings.source)
        context = _context(settings, path, progress, diffusion or DiffusionSettings())
        prompter = await asyncio.to_thread(task.prompter.resolve(), context)
        placement = placement or ModelPlacement(PlacementFile(), name, settings)
        is_colocated = placement.is_colocated(task.pipeline)
        groups = engine_groups(task.pipeline, is_colocated=is_colocated)
        needs_encoder = task.encoder is not None and prompter.capabilities.needs_encoder
        if task.encoder is not None and needs_encoder:
            groups = ((task.encoder,), *groups)
        placements = [placement.placement(specs) for specs in groups]
        stages = PooledModel(groups, context, placements)
        if pool is None:
            pool = ModelPool(LocalFabric(build_stage))
            pool.add(stages)
            await pool.preload()
        else:
            pool.add(stages)
        further = further_names(settings.source, path)
        loaded = cls(name, family, task, prompter, pool, stages, path=path, further_names=further)
        if needs_encoder:
            loop = LoopCalls(asyncio.get_running_loop())
            prompter.use_encoder(partial(loop.run, loaded._encode))
        return loaded

    def answers_to(self, name: str) -> bool:
        """Whether a request means this model by a name that is not the served one."""
        return plain_name(name) in self._further_names

    @property
    def is_loaded(self) -> bool:
        """Whether its stages are in memory."""
        return bool(self._stages.handles)

    @property
    def status(self) -> StageStatus:
        """What its stages have published last; the empty status while they are not loaded."""
        statuses = [self.fabric.status(each) for each in self._stages.handles]
        capacity = StageStatus.merged(statuses[self._first :]).capacity
        return replace(StageStatus.merged(statuses), capacity=capacity)

    @property
    def num_replicas(self) -> int:
        """How many replicas its stages have, the fewest of any; 1 while they are not loaded."""
        return self.status.num_replicas

    def engine_stats(self) -> Iterator[tuple[str, EngineStats]]:
        """Yield the name of each loaded stage that counts, and its latest statistics."""
        for specs, handle in zip(self._stages.groups, self._stages.handles, strict=False):
            if (stats := self.fabric.status(handle).stats) is not None:
                yield "+".join(spec.name for spec in specs), stats

    async def open(
        self, request: StageRequest, text: AsyncGenerator[Piece, None] | None = None
    ) -> AsyncGenerator[StageItem, None]:
        """Open a request's stream through all stages.

        Args:
            request: whose prompt holds all of the text, or its beginning.
            text: the rest of a text that is still arriving, the last piece closing it; closed with
                the stream.
        """
        async with self._pool.held(self._stages) as handles:
            first, *_ = *upstream, last = handles[self._first :]
            stream = self.fabric.open(last, replace(request, upstream=tuple(upstream)))
            if text is not None:
                stream = run_with_producer(stream, partial(self._feed, first, request.id, text))
            async with aclosing(until_first("first chunk", stream)) as items:
                async for item in items:
                    yield item

    async def _feed(
        self, handle: StageHandle, request_id: str, text: AsyncGenerator[Piece, None]
    ) -> None:
        is_open = True
        async with aclosing(text):
            async for piece in text:
                self.fabric.append(handle, request_id, piece)
                is_open = piece.num_frames_allowed is not None
        assert not is_open, "the last piece closes the text"

    async def _encode(self, data: Any) -> NDArray[Any]:
        """Encode what a request has brought; see `Encode`."""
        request = StageRequest(new_request_id(), Prompt(data=data, num_tokens=1, seed=0))
        async with (
            self._pool.held(self._stages) as handles,
            aclosing(self.fabric.open(handles[0], request)) as items,
        ):
            async for item in items:
                if isinstance(item, Latents):
                    encoded: NDArray[Any] = item.data
                    return encoded
        raise EngineError("The encoder made nothing.")

    def sample_prompt(self) -> Prompt:
        """Build a small prompt that needs nothing from a user; computes."""
        prompt: Prompt = self.prompter.build(self.prompter.capabilities.sample_request, 0)
        return prompt

    async def warm_up(self) -> None:
        """Serve a sample request, so that the first user does not wait for caches."""
        prompt = await asyncio.to_thread(self.sample_prompt)
        async with aclosing(self.open(StageRequest(new_request_id(), prompt))) as stream:
            async for _ in stream:
                pass
        logger.info("%s is warm", self.name)

    async def close(self) -> None:
        """Free everything."""
        await self._pool.remove(self._stages)


def _context(
    settings: ModelSettings,
    path: Path | None,
    progress: LoadProgress | None,
    diffusion: DiffusionSettings,
) -> LoadContext:
    return LoadContext(
        path,
        settings.device,
        settings.dtype,
        settings.max_slots,
        cache_bytes=None if settings.cache_gib is None else int(settings.cache_gib * 2**30),
        is_deterministic=settings.deterministic,
        admission=AdmissionLimits(
            max_waiting=settings.max_waiting,
            max_wait_s=settings.max_wait_s,
            max_load=settings.max_load,
        ),
        playback=playback_policy(settings),
        diffusion=diffusion,
        progress=progress,
    )
