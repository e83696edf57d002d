"""A thread that steps a denoiser for many requests, and its asyncio face."""

import logging
import time
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import contextmanager
from enum import Enum, auto
from functools import partial
from typing import Any, TypeAlias

from antiphon.config import ModelSettings
from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.picture_types import Progress
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Ended, Latents
from antiphon.diffusion.protocol import Denoiser, DenoisingWork
from antiphon.diffusion.scheduler import DenoisingRequest, DiffusionScheduler
from antiphon.engine.faults import fault_of
from antiphon.engine.thread import Outbox, ThreadedEngine
from antiphon.errors import AntiphonError, EngineError, EngineFailedError
from antiphon.telemetry.stage_status import EngineStats, Publish

logger = logging.getLogger(__name__)


class _Signal(Enum):
    CALLED = auto()


_Item: TypeAlias = Progress | Latents | Ended | _Signal


class DenoisingJob:
    """A request that was admitted; used by one consumer, on the event loop that opened it."""

    def __init__(
        self, engine: "DiffusionEngine", request_id: str, prompt: Prompt, request: DenoisingRequest
    ) -> None:
        self.request_id = request_id
        self.prompt = prompt
        self.request = request
        self.outbox: Outbox[_Item] = Outbox()
        self.conditioning: Latents | None = None
        self.state: Any = None
        self.num_previews = 0
        self.has_left = False
        self._engine = engine

    async def called(self) -> bool:
        """Wait until the conditioning is due; return false if the request was aborted.

        Raises:
            EngineFailedError: the engine has been closed, or has failed.
        """
        return await self.outbox.get() is _Signal.CALLED

    async def denoise(
        self, conditioning: Latents | None
    ) -> AsyncGenerator[Progress | Latents | Ended, None]:
        """Stream the progress, previews in between, the final latents, and last its `Ended`.

        A slow reader misses progress, but never the last of it.

        Raises:
            EngineError: the model failed on this request, or on one stepped with it.
            EngineFailedError: the engine has been closed, or has failed.
        """
        self._engine.make_ready(self, conditioning)
        while True:
            item = await self.outbox.get()
            assert not isinstance(item, _Signal), "it is called once"
            yield item
            if isinstance(item, Ended):
                return


class DiffusionEngine(ThreadedEngine):
    """Steps the requests that a `DiffusionScheduler` chooses, again before each step.

    All calls to the denoiser come from one thread. A request on which the model fails is ended
    alone, unless it fails in a step, which ends those of the step.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        *,
        name: str = "denoiser",
        max_batch: int | None = None,
        max_requests: int = ModelSettings().max_slots,
        max_bytes: int | None = None,
        limits: AdmissionLimits | None = None,
        publish: Publish | None = None,
    ) -> None:
        """Start the thread.

        Args:
            denoiser: closed with the engine.
            max_batch: most requests stepped together; at most, and by default, the denoiser's own
                limit.
            max_requests: most requests that hold a state at the same time.
            max_bytes: memory limit of all states together; ``None``: no limit.
            publish: callback for each change of the engine's status.
        """
        super().__init__(name=name, publish=publish)
        self._denoiser = denoiser
        max_batch = min(max_batch or denoiser.max_batch, denoiser.max_batch, max_requests)
        self._scheduler = DiffusionScheduler(
            max_batch, max_requests=max_requests, max_bytes=max_bytes, limits=limits
        )
        self._jobs: dict[int, DenoisingJob] = {}
        self._stats = EngineStats()
        self._start(capacity=max_batch)

    @contextmanager
    def admitted(
        self,
        request_id: str,
        prompt: Prompt,
        *,
        work: DenoisingWork | None = None,
        is_live: bool = True,
        is_later: bool = False,
    ) -> Generator[DenoisingJob, None, None]:
        """Admit a request for as long as the block lasts; leaving it frees all that it holds.

        Its place in the queue is its own before anything was computed for it; see
        `DenoisingJob.called`.

        Args:
            work: the denoiser's estimate for the prompt; ``None``: it is computed now.
            is_live: whether a client waits for it; otherwise it is behind all live requests.
            is_later: whether it was admitted elsewhere, and is not refused.

        Raises:
            InvalidRequestError: The request needs more memory than there is for all requests.
            OverloadedError: too many wait, or would for too long.
            EngineFailedError: the engine has been closed, or has failed.
        """
        work = work or self._denoiser.work(prompt)
        with self._changed:
            self._check_works()
            request = self._scheduler.add(work, is_live=is_live, is_later=is_later)
            job = self._jobs[request.order] = DenoisingJob(self, request_id, prompt, request)
            self._call()
        with self._counted():
            try:
                yield job
            finally:
                self._leave(job)

    def make_ready(self, job: DenoisingJob, conditioning: Latents | None) -> None:
        """Set the conditioning of a request; it may begin from now on."""
        with self._changed:
            job.conditioning = conditioning
            job.request.is_ready = True
            self._changed.notify()

    def abort(self, request_id: str) -> None:
        """End a request by an `Ended` with the reason "abort"; does nothing if it has ended."""
        with self._changed:
            for job in tuple(self._jobs.values()):
                if job.request_id == request_id:
                    self._end(job, Ended("abort"))

    async def close(self) -> None:
        await super().close()
        self._denoiser.close()

    def _leave(self, job: DenoisingJob) -> None:
        with self._changed:
            self._forget(job)
            self._publish_stats(is_idle=not self._jobs)

    def _end(self, job: DenoisingJob, *items: _Item | Exception) -> None:
        """Deliver the last items of a job, and release its state."""
        for item in items:
            job.outbox.put(item)
        self._forget(job)

    def _end_all(self, error: Exception | None = None) -> None:
        with self._changed:
            for job in tuple(self._jobs.values()):
                self._end(job, error or self._closed_error())

    def _forget(self, job: DenoisingJob) -> None:
        """Release the state of a job; a step in flight releases its state when it has ended."""
        if job.has_left:
            return
        job.has_left = True
        job.state = job.conditioning = None
        self._scheduler.remove(job.request)
        del self._jobs[job.request.order]
        self._call()
        self._changed.notify()  # another one may begin

    def _call(self) -> None:
        for request in self._scheduler.call():
            self._jobs[request.order].outbox.put(_Signal.CALLED)

    def _work(self) -> None:
        while batch := self._next_batch():
            with self._status.step():
                self._step(batch)
            del batch  # with what it refers to, while the next one is waited for

    def _next_batch(self) -> list[DenoisingJob]:
        """Wait for requests to be stepped; empty: the engine is closed."""
        with self._changed:
            while not self._is_closed:
                if requests := self._scheduler.schedule():
                    self._publish_stats()
                    return [self._jobs[request.order] for request in requests]
                self._publish_stats(is_idle=True)
                self._changed.wait()
        return []

    def _step(self, batch: Sequence[DenoisingJob]) -> None:
        for job in batch:
            if not job.request.num_done:
                self._begin(job)
        with self._changed:
            states = {job: job.state for job in batch if not job.has_left}
        if not states:
            return
        began_s = time.monotonic()
        fault = fault_of(partial(self._denoiser.step, tuple(states.values())))
        duration_s = time.monotonic() - began_s
        with self._changed:
            self._scheduler.update([job.request for job in states], duration_s)
            self._stats.step_seconds["denoise"].observe(duration_s)
            self._stats.step_rows["denoise"].observe(len(states))
        if fault is not None:
            self._fail(states, fault)
        else:
            for job, state in states.items():
                self._deliver(job, state)

    def _begin(self, job: DenoisingJob) -> None:
        made: list[Any] = []

        def begin() -> None:
            made.append(self._denoiser.begin(job.prompt, job.conditioning))

        fault = fault_of(begin)
        if fault is not None:
            self._fail([job], fault)
            return
        with self._changed:
            job.conditioning = None
            if not job.has_left:
                job.state = made[0]

    def _deliver(self, job: DenoisingJob, state: Any) -> None:
        """Deliver the results of a step: progress, a preview, the final item."""
        work, num_done = job.request.work, job.request.num_done
        if job.has_left:
            return
        if not job.outbox.put(Progress(num_done, work.num_steps)):
            logger.debug("%s is dropped: its consumer's event loop is closed", job.request_id)
            self._leave(job)
            return
        made: list[Latents] = []
        if job.request.is_complete:
            fault = fault_of(lambda: made.append(self._denoiser.finish(state)))
        elif num_done in work.preview_steps:
            fault = fault_of(lambda: made.append(self._denoiser.preview(state)))
        else:
            return
        if fault is not None:
            self._fail([job], fault)
        elif job.request.is_complete:
            with self._changed:
                self._end(job, made[0], Ended("stop"))
        else:
            job.outbox.put(Latents(made[0].data, preview_index=job.num_previews))
            job.num_previews += 1

    def _fail(
        self, jobs: "Sequence[DenoisingJob] | dict[DenoisingJob, Any]", fault: Exception
    ) -> None:
        """End requests after a fault of the model, or all requests if the model is broken for
        good."""
        error = fault if isinstance(fault, AntiphonError) else EngineError("The model failed.")
        if not isinstance(fault, AntiphonError) or isinstance(fault, EngineFailedError):
            logger.error("a denoiser failed", exc_info=fault)
        error = error.with_traceback(None)  # which refers to states
        with self._changed:
            if isinstance(fault, EngineFailedError):
                self._status.update(failure=str(fault))
                self._end_all(error)
            for job in jobs:
                if not job.has_left:
                    self._end(job, error)

    def _snapshot(self) -> EngineStats:
        self._stats.requests_running = self._scheduler.num_running
        self._stats.requests_waiting = self._scheduler.num_open - self._scheduler.num_running
        return self._stats.snapshot()
