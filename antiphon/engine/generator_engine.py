"""Engine of models that own their loop: its threads advance generators item by item."""

import asyncio
import contextvars
import logging
import time
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass, field

from antiphon.concurrency import num_usable_cores
from antiphon.config import ModelSettings
from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.prompt import Admitted, GeneratorItem, Prompt, StageGenerator
from antiphon.contracts.types import AudioChunk, Ended, FinishReason
from antiphon.engine.faults import fault_of
from antiphon.engine.generator_scheduler import GeneratorRequest, GeneratorScheduler
from antiphon.engine.thread import Outbox, ThreadedEngine
from antiphon.telemetry.stage_status import EngineStats, Publish

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Job:
    """A generator, its request, and where its items go; ``None`` is the last one."""

    request_id: str
    pieces: Generator[GeneratorItem, None, None]
    request: GeneratorRequest
    reason: FinishReason = "stop"
    has_left: bool = False
    outbox: Outbox[GeneratorItem | None] = field(default_factory=Outbox)
    context: contextvars.Context = field(default_factory=contextvars.copy_context)

    def next_item(self) -> GeneratorItem | Exception | None:
        """Compute the next item in the context of the consumer that wants it."""
        made: list[GeneratorItem | None] = []
        fault = fault_of(lambda: made.append(self.context.run(next, self.pieces, None)))
        return made[0] if fault is None else fault


class GeneratorEngine(ThreadedEngine):
    """Computes as many chunks at a time as there are threads, in a `GeneratorScheduler`'s order.

    A generator that raises ends its own stream only.
    """

    def __init__(
        self,
        generator: StageGenerator,
        *,
        name: str = "generator",
        num_threads: int | None = None,
        max_streams: int = ModelSettings().max_slots,
        limits: AdmissionLimits | None = None,
        publish: Publish | None = None,
    ) -> None:
        """Start the threads, by default one for each usable core; they close ``generator``."""
        num_threads = num_threads or num_usable_cores()
        super().__init__(name=name, num_threads=num_threads, publish=publish)
        self._generator = generator
        self._scheduler = GeneratorScheduler(num_threads, max_streams, limits)
        self._jobs: dict[int, _Job] = {}
        self._stats = EngineStats()
        self._start(capacity=max_streams)

    async def generate(
        self,
        request_id: str,
        prompt: Prompt,
        *,
        stream_id: str | None = None,
        is_live: bool = True,
        is_later: bool = False,
        speed: float = 1.0,
    ) -> AsyncGenerator[GeneratorItem | Ended, None]:
        """Stream a prompt's items, last its `Ended`; no item is made before it is wanted.

        Closing the stream frees the request; an item in flight is dropped.

        Args:
            stream_id: identifier of the stream that it is a part of; ``None``: of its own stream.
            is_live: whether a client plays the stream while it is made; otherwise its priority is
                offline, behind all live requests.
            is_later: whether it continues a stream that was admitted.

        Raises:
            OverloadedError: one more stream would cause gaps in others.
            EngineFailedError: the engine has been closed.
        """
        pieces = self._generator.generate(prompt)
        with self._changed:
            stream_id = stream_id or request_id
            request = self._scheduler.add(
                stream_id, prompt.num_tokens, is_live=is_live, is_later=is_later, speed=speed
            )
            job = self._jobs[request.order] = _Job(request_id, pieces, request)
        with self._counted():
            try:
                while (item := await self._next_item(job)) is not None:
                    yield item
                yield Ended(job.reason)
            finally:
                self._leave(job)

    async def reserve(
        self, stream_id: str, *, is_live: bool = True, speed: float = 1.0
    ) -> AsyncGenerator[Admitted, None]:
        """Keep room for a live stream until its first ``is_later`` request; raises OverloadedError.

        Closing this frees the room; it yields one item, and has no end.
        """
        if is_live:
            with self._changed:
                self._scheduler.reserve(stream_id, speed=speed)
        try:
            yield Admitted()
            await asyncio.Event().wait()
        finally:
            with self._changed:
                self._scheduler.release(stream_id)
                self._changed.notify_all()  # there may be capacity for another stream

    def abort(self, request_id: str) -> None:
        """End a request by an `Ended` with the reason "abort"; does nothing if it has ended."""
        with self._changed:
            for job in self._jobs.values():
                if job.request_id == request_id:
                    job.reason = "abort"
                    job.outbox.put(None)

    async def close(self) -> None:
        await super().close()
        self._generator.close()

    def _end_all(self) -> None:
        """End all requests except those whose item is in flight in another thread."""
        with self._changed:
            for job in self._jobs.values():
                if self.failure or job.request.wanted_s is not None:
                    job.outbox.put(self._closed_error())

    async def _next_item(self, job: _Job) -> GeneratorItem | None:
        with self._changed:
            self._check_works()
            if job.reason != "abort":
                job.context = contextvars.copy_context()
                self._scheduler.want(job.request)
                self._changed.notify()
        return await job.outbox.get()

    def _leave(self, job: _Job) -> None:
        with self._changed:
            job.has_left = True
            self._scheduler.remove(job.request)
            del self._jobs[job.request.order]
            is_running = job.request.is_running
            self._changed.notify_all()  # there may be capacity for another stream
            self._publish_stats(is_idle=not self._jobs)
        if not is_running:  # else its thread closes it
            _close(job)

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            began_s = time.monotonic()
            with self._status.step():
                item = job.next_item()
            audio_s = item.duration_s if isinstance(item, AudioChunk) else 0.0
            with self._changed:
                self._scheduler.update(job.request, audio_s, is_complete=item is None)
                has_left = job.has_left
                self._stats.step_seconds["generator"].observe(time.monotonic() - began_s)
                self._publish_stats(is_idle=not self._jobs)
                self._changed.notify_all()  # an offline request may run, or capacity was learned
            if has_left:
                _close(job)
            else:
                job.outbox.put(item)

    def _snapshot(self) -> EngineStats:
        self._stats.requests_waiting = self._scheduler.num_waiting
        self._stats.requests_running = self._scheduler.num_open - self._scheduler.num_waiting
        return self._stats.snapshot()

    def _next_job(self) -> _Job | None:
        with self._changed:
            while not self._is_closed:
                if (request := self._scheduler.schedule()) is not None:
                    return self._jobs[request.order]
                self._changed.wait()
        return None


def _close(job: _Job) -> None:
    if (fault := fault_of(job.pieces.close)) is not None:
        logger.error("a generator failed while it was closed", exc_info=fault)
