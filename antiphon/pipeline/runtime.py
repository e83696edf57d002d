"""A task of a family made live: its stages loaded, warmed and opened."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

from antiphon.concurrency import LoopCalls, run_with_producer
from antiphon.config import ModelSettings
from antiphon.config.diffusion import DiffusionSettings
from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.family import Family, LoadContext, StageKind, StageSpec, Task
from antiphon.contracts.prompt import Admitted, Piece, Prompt, SupportsEncoderWarmUp
from antiphon.contracts.types import Latents, LoadProgress, SpeechRequest, new_request_id
from antiphon.errors import EngineError, ModelLoadError
from antiphon.fabric.base import Placement
from antiphon.fabric.local import LocalFabric
from antiphon.fabric.pool import ModelPool, PooledModel
from antiphon.families.kit.random_checkpoint import load_format_of
from antiphon.families.registry import further_names, plain_name, resolve, served_name
from antiphon.pipeline.acceleration_check import (
    check_accelerations,
    check_gpus,
    check_settings,
    denoises,
)
from antiphon.placement.model_placement import ModelPlacement, playback_policy
from antiphon.placement.schema import PlacementFile
from antiphon.stages.base import StageHandle, StageItem, StageRequest
from antiphon.stages.build import build_stage, engine_groups, shared_engines
from antiphon.telemetry.stage_status import EngineStats, StageStatus
from antiphon.telemetry.tracing import until_first

logger = logging.getLogger(__name__)

_MAX_RETRY_AFTER_S = 30.0  # of speech: forecasts of a later end are worth little


class LoadedTask:
    """A task of a model that is ready to serve requests."""

    task_name = ""  # of the task that `load` loads if none is named

    def __init__(
        self,
        name: str,
        further_names: Collection[str],
        family: Family,
        task_name: str,
        prompter: Any,
        pool: ModelPool,
        stages: PooledModel,
        chain: Sequence[Sequence[StageSpec]],
    ) -> None:
        """Wrap what has been loaded.

        Args:
            further_names: names that requests may use, too; they are not listed.
            prompter: Prompter of the task; it may ask the task's encoder, if there is one.
            stages: Stages of all tasks of the model, as the pool loads them.
            chain: those of this task by engine, before them its encoder if it is needed.
        """
        self.name = name
        self._further_names = further_names
        self.family = family
        self.task_name = task_name
        self.task = family.tasks[task_name]
        self.path = stages.context.path
        self.prompter = prompter
        self.fabric = pool.fabric
        self._pool = pool
        self._stages = stages
        self._groups = tuple(stages.groups.index(group) for group in chain)
        self._first = int(chain[0] == (self.task.encoder,))  # of the pipeline's
        if self._first:
            loop = LoopCalls(asyncio.get_running_loop())
            prompter.use_encoder(partial(loop.run, self._encode))

    @classmethod
    async def load(
        cls, settings: ModelSettings, task_name: str = "", *, pool: ModelPool | None = None
    ) -> Self:
        """Load one task alone; see `load_tasks`."""
        task_name = task_name or cls.task_name
        return cast(Self, (await load_tasks(settings, {task_name: cls}, pool=pool))[task_name])

    def answers_to(self, name: str) -> bool:
        """Whether a request means this model by a name that is not the served one."""
        return plain_name(name) in self._further_names

    @property
    def is_loaded(self) -> bool:
        return bool(self._stages.handles)

    @property
    def handles(self) -> tuple[StageHandle, ...]:
        """Of the task's stages, the encoder first if there is one; empty while not loaded."""
        return self._own(self._stages.handles)

    def _own(self, handles: Sequence[StageHandle]) -> tuple[StageHandle, ...]:
        return tuple(handles[number] for number in self._groups) if handles else ()

    @property
    def status(self) -> StageStatus:
        """What its stages have published last; the empty status while they are not loaded."""
        statuses = [self.fabric.status(each) for each in self.handles]
        capacity = StageStatus.merged(statuses[self._first :]).capacity
        return replace(StageStatus.merged(statuses), capacity=capacity)

    def engine_stats(self) -> Iterator[tuple[StageHandle, str, EngineStats]]:
        """Yield each loaded stage that counts, its name, and its latest statistics."""
        for number, handle in zip(self._groups, self.handles, strict=False):
            if (stats := self.fabric.status(handle).stats) is not None:
                name = "+".join(spec.name for spec in self._stages.groups[number])
                yield handle, name, stats

    async def open(
        self, request: StageRequest, text: AsyncGenerator[Piece, None] | None = None
    ) -> AsyncGenerator[StageItem, None]:
        """Open a request's stream through all stages.

        Args:
            request: Request whose prompt holds all of the text, or its beginning.
            text: the rest of a text that is still arriving, the last piece closing it; closed with
                the stream.
        """
        async with self._pool.held(self._stages) as handles:
            first, *_ = *upstream, last = self._own(handles)[self._first :]
            stream = self.fabric.open(last, replace(request, upstream=tuple(upstream)))
            if text is not None:
                stream = run_with_producer(stream, partial(self._feed, first, request.id, text))
            async with aclosing(until_first("first chunk", stream)) as items:
                async for item in items:
                    yield item

    def reserve(self, speech: SpeechRequest) -> AsyncGenerator[StageItem, None]:
        """Ask for room for a stream before there is a prompt; see `StageRequest.is_reservation`.

        A model that is not in memory has room. It is neither loaded for this nor kept: the model
        that writes may have to be loaded in its place before.
        """
        if not self.is_loaded:
            return _admitted()
        request = StageRequest(
            f"{speech.id}-place",
            Prompt(data=None, num_tokens=1, seed=0),
            is_live=speech.is_live,
            stream_id=speech.id,
            is_reservation=True,
            speed=speech.speed,
        )
        *upstream, last = self.handles[self._first :]
        return self.fabric.open(last, replace(request, upstream=tuple(upstream)))

    async def _feed(
        self, handle: StageHandle, request_id: str, text: AsyncGenerator[Piece, None]
    ) -> None:
        is_open = True
        async with aclosing(text):
            async for piece in text:
                self.fabric.append(handle, request_id, piece)
                is_open = piece.num_frames_allowed is not None
        assert not is_open, "the last piece closes the text"

    async def _encode(self, data: Any) -> Any:
        request = StageRequest(new_request_id(), Prompt(data=data, num_tokens=1, seed=0))
        async with (
            self._pool.held(self._stages) as handles,
            aclosing(self.fabric.open(self._own(handles)[0], request)) as items,
        ):
            async for item in items:
                if isinstance(item, Latents):
                    return item.data
        raise EngineError("The encoder made nothing.")

    def sample_prompt(self) -> Prompt:
        """Build a small prompt that needs nothing from a user; computes."""
        prompt: Prompt = self.prompter.build(self.prompter.capabilities.sample_request, 0)
        return prompt

    async def warm_up(self) -> None:
        """Serve a sample request, so that the first user does not wait for caches."""
        if self._first and isinstance(self.prompter, SupportsEncoderWarmUp):
            await asyncio.to_thread(self.prompter.warm_encoder)
        prompt = await asyncio.to_thread(self.sample_prompt)
        async with aclosing(self.open(StageRequest(new_request_id(), prompt))) as stream:
            async for _ in stream:
                pass
        logger.info("%s is warm (%s)", self.name, self.task_name)

    async def close(self) -> None:
        """Free everything, of the model's other tasks too."""
        await self._pool.remove(self._stages)


async def load_tasks(
    settings: ModelSettings,
    classes: Mapping[str, type[LoadedTask]],
    *,
    progress: LoadProgress | None = None,
    pool: ModelPool | None = None,
    placement: ModelPlacement | None = None,
    diffusion: DiffusionSettings | None = None,
) -> dict[str, LoadedTask]:
    """Load prompters and stages of a model's tasks, off the event loop.

    A stage that several tasks declare alike is loaded once. The tasks are in memory, or not,
    together; closing one of them closes all.

    Args:
        progress: called, in other threads, with the progress of loading.
        pool: Pool that loads the stages, now or later; default: now, in this process.
        placement: Placement of the stages; default: that of the settings.
        diffusion: Settings of models that denoise; default: the default settings.

    Raises:
        ModelLoadError: no family serves it, its family has no such task, or its checkpoint is
            wrong.
        SettingsError: placement, ``diffusion`` or load format do not fit the stages.
    """
    family, path = await asyncio.to_thread(resolve, settings.source)
    check_settings(family, settings)
    classes = await asyncio.to_thread(_offered, family, path, classes)
    model = settings.name or served_name(settings.source)
    diffusion = diffusion or DiffusionSettings()
    if any(denoises(family.tasks[name]) for name in classes):
        check_accelerations((family,), diffusion)
    context = replace(_context(settings, path, progress, diffusion), tasks=tuple(classes))
    placement = placement or ModelPlacement(PlacementFile(), model, settings)
    prompters = {
        name: await asyncio.to_thread(family.tasks[name].prompter.resolve(), context)
        for name in classes
    }
    tasks = family.tasks
    chains = {name: _engine_chain(tasks[name], each, placement) for name, each in prompters.items()}
    chains = shared_engines(chains)
    groups = tuple(dict.fromkeys(group for chain in chains.values() for group in chain))
    stages = _placed(groups, context, placement)
    if placement.fabric != "ray":  # which has GPUs of other hosts
        check_gpus(_denoisers(stages))
    is_own = pool is None
    pool = pool or ModelPool(LocalFabric(build_stage))
    pool.add(stages)
    if is_own:
        await pool.preload()
    others = further_names(settings.source, path)
    return {
        name: classes[name](model, others, family, name, prompters[name], pool, stages, chain)
        for name, chain in chains.items()
    }


async def _admitted() -> AsyncGenerator[StageItem, None]:
    """Yield the admission of a stream by a model that is not in memory."""
    yield Admitted()


def _offered(
    family: Family, path: Path | None, classes: Mapping[str, type[LoadedTask]]
) -> dict[str, type[LoadedTask]]:
    """Return the tasks that a checkpoint has what they need for; raises ModelLoadError."""
    if missing := [name for name in classes if name not in family.tasks]:
        raise ModelLoadError(
            f"'{family.name}' does not serve '{missing[0]}', but: {', '.join(family.tasks)}."
        )
    offered = {name: each for name, each in classes.items() if family.tasks[name].is_offered(path)}
    if not offered:
        raise ModelLoadError(f"{path}: lacks what '{', '.join(classes)}' needs.")
    return offered


def _engine_chain(
    task: Task, prompter: Any, placement: ModelPlacement
) -> tuple[tuple[StageSpec, ...], ...]:
    """Return a task's stages by engine; before them its encoder, if the prompter needs it."""
    is_colocated = placement.is_colocated(task.pipeline)
    groups = engine_groups(task.pipeline, is_colocated=is_colocated)
    if task.encoder is not None and prompter.capabilities.needs_encoder:
        return ((task.encoder,), *groups)
    return groups


def _placed(
    groups: tuple[tuple[StageSpec, ...], ...], context: LoadContext, placement: ModelPlacement
) -> PooledModel:
    """Return a model's engines and where they run, to be loaded."""
    placements = placement.placements(groups)
    if not _is_alone(groups, placements):
        context = replace(context, memory_utilization=None)
    return PooledModel(groups, context, placements)


def _denoisers(stages: PooledModel) -> Iterator[LoadContext]:
    for group, placement in zip(stages.groups, stages.placements, strict=True):
        if group[0].kind is StageKind.DIFFUSION:
            for number in range(placement.num_most):
                yield placement.context_of(stages.context, number)


def _is_alone(groups: Sequence[tuple[StageSpec, ...]], placements: Sequence[Placement]) -> bool:
    """Whether one engine of a model keeps keys and values, and shares its device with no other."""
    num_keeping = sum(group[0].kind is StageKind.AUTOREGRESSIVE for group in groups)
    return num_keeping == 1 and not any(
        each.num_most > max(1, len(set(each.devices)))
        or each.memory_fraction is not None
        or 0 < each.num_gpus < 1
        for each in placements
    )


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
        load_format=load_format_of(path, settings.load_format),
        quantize=settings.quantize,
        cpu_threads=settings.cpu_threads,
        trusts_remote_code=settings.trust_remote_code,
        memory_utilization=settings.gpu_memory_utilization,
        has_fixed_slots="max_slots" in settings.model_fields_set,
        admission=AdmissionLimits(
            max_waiting=settings.max_waiting,
            max_wait_s=settings.max_wait_s,
            max_load=settings.max_load,
            max_retry_after_s=_MAX_RETRY_AFTER_S,
        ),
        playback=playback_policy(settings),
        diffusion=diffusion,
        progress=progress,
    )
