"""The driver of stages that denoise."""

import asyncio
import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from antiphon.contracts.family import LoadContext, StageSpec
from antiphon.contracts.picture_types import Progress
from antiphon.contracts.prompt import Admitted
from antiphon.contracts.types import Ended, Latents
from antiphon.diffusion.engine import DiffusionEngine
from antiphon.diffusion.protocol import Denoiser, DenoisingWork
from antiphon.errors import EngineError
from antiphon.stages.base import StageItem, StageRequest, StageStream
from antiphon.stages.upstream import PromptStage, consumed
from antiphon.telemetry.stage_status import Publish


class DiffusionStage(PromptStage):
    """Denoises the output of the stage before, or random latents for the prompt alone.

    A request waits in the queue first: the stage before works on it when its turn is near. So one
    that is refused has cost nothing, and what waits takes no memory.
    """

    def __init__(
        self, denoiser: Denoiser, spec: StageSpec, context: LoadContext, publish: Publish
    ) -> None:
        super().__init__()
        limits = replace(
            context.admission, max_wait_s=context.diffusion.max_wait_s, max_retry_after_s=math.inf
        )
        max_requests = min(spec.max_concurrency or context.max_slots, context.max_slots)
        if context.diffusion.cache_backend is not None:
            max_requests = 1  # what it keeps from step to step is one request's
        self._denoiser = denoiser
        self._engine: DiffusionEngine = DiffusionEngine(
            denoiser,
            name=spec.name,
            max_batch=context.diffusion.max_batch,
            max_requests=max_requests,
            max_bytes=context.cache_bytes,
            limits=limits,
            publish=publish,
        )

    async def open(
        self, request: StageRequest, upstream: StageStream | None
    ) -> AsyncGenerator[StageItem, None]:
        with self._opened(request.id) as aborted:
            # It may be asked of another process.
            work = await asyncio.to_thread(self._denoiser.work, request.prompt)
            if aborted.is_set():
                yield Ended("abort")
                return
            async with aclosing(self._denoise(request, work, upstream, aborted)) as items:
                async for item in items:
                    yield item

    async def _denoise(
        self,
        request: StageRequest,
        work: DenoisingWork,
        upstream: StageStream | None,
        aborted: asyncio.Event,
    ) -> AsyncGenerator[StageItem, None]:
        with self._engine.admitted(
            request.id,
            request.prompt,
            work=work,
            is_live=request.is_live,
            is_later=request.is_later,
        ) as job:
            if request.tells_admission:
                yield Admitted()
            if not await job.called():
                yield Ended("abort")
                return
            conditioning: Latents | None = None
            if upstream is not None:
                async with aclosing(consumed(upstream, aborted)) as items:
                    async for item in items:
                        if isinstance(item, Progress):
                            yield item
                        elif isinstance(item, Latents):
                            conditioning = item
                        elif isinstance(item, Ended) and item.reason == "abort":
                            yield item
                            return
                if conditioning is None:
                    raise EngineError("The stage before made nothing to be denoised.")
            async with aclosing(job.denoise(conditioning)) as made:
                del conditioning  # the job's, until it begins
                async for each in made:
                    yield each

    def abort(self, request_id: str) -> None:
        super().abort(request_id)
        self._engine.abort(request_id)
