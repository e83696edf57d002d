"""Threads that advance generators chunk by chunk, and their asyncio face."""

import asyncio
import contextvars
import logging
import threading
import time
from collections.abc import AsyncGenerator, Generator

from antiphon.concurrency import num_usable_cores
from antiphon.config import ModelSettings
from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.prompt import Admitted, GeneratorItem, Prompt, StageGenerator
from antiphon.contracts.types import AudioChunk, Ended, FinishReason
from antiphon.engine.faults import fault_of
from antiphon.engine.generator_scheduler import GeneratorRequest, GeneratorScheduler
from antiphon.errors import EngineFailedError
from antiphon.telemetry.engine_stats import EngineStats
from antiphon.telemetry.stage_status import Publish, StatusPublisher

logger = logging.getLogger(__name__)

_CLOSE_S = 5.0
_STATS_S = 0.25  # between two publications of statistics
_CLOSED = "The model has been closed."


class _Job:
    """A generator, and its consumer, which may be on any event loop."""

    def __init__(
        self,
        request_id: str,
        pieces: Generator[GeneratorItem, None, None],
        request: GeneratorRequest,
    ) -> None:
        self.request_id = request_id
        self.reason: FinishReason = "stop"
        self.pieces = pieces
        self.request = request
        self.is_aborted = False
        self.chunk: GeneratorItem | None = None
        self._loop = asyncio.get_running_loop()
        self._next: asyncio.Future[GeneratorItem | None] = self._loop.create_future()
        self._context = contextvars.copy_context()

    def want(self) -> "asyncio.Future[GeneratorItem | None]":
        """Return a future of the next chunk, which is made in the caller's context."""
        self._next = self._loop.create_future()
        self._context = contextvars.copy_context()
        return self._next

    def make(self) -> None:
        """Compute `chunk`; it is ``None`` at the end."""
        self.chunk = self._context.run(next, self.pieces, None)

    def resolve(self, outcome: GeneratorItem | Exception | None) -> None:
        """Resolve the future, from any thread."""
        try:
            self._loop.call_soon_threadsafe(_settle, self._next, outcome)
        except RuntimeError:
            logger.debug("a chunk is dropped: the event loop of its consumer is closed")


class GeneratorEngine:
    """Computes as many chunks at a time as there are threads, in a `GeneratorScheduler`'s order.

    A generator that raises ends its own stream only. The threads are daemons: one that hangs delays
    neither the engine's closing nor the process's exit.
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
        """Start the threads.

        Args:
            generator: closed with the engine.
            name: of the threads.
            num_threads: default: the number of cores that we may use.
            max_streams: streams that are played at the same time, whatever the throughput.
            limits: of what is admitted.
            publish: takes each change of the engine's status.
        """
        num_threads = num_threads or num_usable_cores()
        self._generator = generator
        self._scheduler = GeneratorScheduler(num_threads, max_streams, limits)
        self._jobs: dict[int, _Job] = {}
        self._changed = threading.Condition()
        self._is_closed = False
        self._status = StatusPublisher(publish)
        self._status.update(capacity=max_streams)
        self._stats = EngineStats()
        self._next_stats_s = 0.0
        self._threads = [
            threading.Thread(target=self._work, name=f"{name}-{index}", daemon=True)
            for index in range(num_threads)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def num_open(self) -> int:
        """Requests that have not ended."""
        with self._changed:
            return self._scheduler.num_open

    @property
    def stalled_s(self) -> float:
        """Seconds that the longest chunk in flight has taken so far, 0 if there is none."""
        return self._status.status.stalled_s()

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
        """Stream a prompt's items, last its `Ended`; no chunk is made before it is wanted.

        Closing the stream frees what it holds; a chunk in flight is dropped.

        Args:
            request_id: names it.
            prompt: of the model.
            stream_id: of the stream that it makes a part of; ``None``: it is one of its own.
            is_live: whether a listener plays it while it is made; otherwise its priority is
                offline, behind all live requests.
            is_later: whether it continues a stream that was admitted.
            speed: at which it is played.

        Raises:
            OverloadedError: one stream more would cause gaps in others.
            EngineFailedError: the engine has been closed.
        """
        pieces = self._generator.generate(prompt)
        with self._changed:
            request = self._scheduler.add(
                stream_id or request_id,
                prompt.num_tokens,
                is_live=is_live,
                is_later=is_later,
                speed=speed,
            )
            job = self._jobs[request.order] = _Job(request_id, pieces, request)
        self._status.update(opened=1)
        try:
            while (chunk := await self._ask(job)) is not None:
                yield chunk
            yield Ended(job.reason)
        finally:
            self._leave(job)
            self._status.update(opened=-1)

    async def reserve(
        self, stream_id: str, *, is_live: bool = True, speed: float = 1.0
    ) -> AsyncGenerator[Admitted, None]:
        """Keep room for a live stream: until a request of it comes, which is ``is_later``.

        The room is free again when this is closed; it has one item, and no end.

        Raises:
            OverloadedError: one stream more would cause gaps in others.
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
                    job.resolve(None)

    async def close(self) -> None:
        """End everything; a chunk in flight is waited for, for a few seconds."""
        with self._changed:
            self._is_closed = True
            for job in self._jobs.values():
                if job.request.wanted_s is not None:
                    job.resolve(EngineFailedError(_CLOSED))
            self._changed.notify_all()
        ends_s = time.monotonic() + _CLOSE_S
        for thread in self._threads:
            await asyncio.to_thread(thread.join, max(ends_s - time.monotonic(), 0.0))
        if any(thread.is_alive() for thread in self._threads):
            logger.error("a chunk did not end in time: its thread is abandoned")
        self._generator.close()

    def _ask(self, job: _Job) -> "asyncio.Future[GeneratorItem | None]":
        chunk = job.want()
        with self._changed:
            if self._is_closed:
                raise EngineFailedError(_CLOSED)
            if job.reason == "abort":
                job.resolve(None)
                return chunk
            self._scheduler.want(job.request)
            self._changed.notify()
        return chunk

    def _leave(self, job: _Job) -> None:
        with self._changed:
            job.is_aborted = True
            self._scheduler.remove(job.request)
            del self._jobs[job.request.order]
            is_running = job.request.is_running
            self._changed.notify_all()  # there may be capacity for another stream
            self._publish_stats()
        if not is_running:  # else its thread closes it
            _close(job)

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            began_s = time.monotonic()
            with self._status.step():
                fault = fault_of(job.make)
            outcome = job.chunk if fault is None else fault
            audio_s = outcome.duration_s if isinstance(outcome, AudioChunk) else 0.0
            with self._changed:
                self._scheduler.update(job.request, audio_s, is_complete=outcome is None)
                is_aborted = job.is_aborted
                self._stats.step_seconds["generator"].observe(time.monotonic() - began_s)
                self._publish_stats()
                self._changed.notify_all()  # an offline request may run, or capacity was learned
            if is_aborted:
                _close(job)
            else:
                job.resolve(outcome)

    def _publish_stats(self) -> None:
        """Publish statistics a few times a second, and when the last request has left."""
        if self._jobs and time.monotonic() < self._next_stats_s:
            return
        self._stats.requests_waiting = self._scheduler.num_waiting
        self._stats.requests_running = self._scheduler.num_open - self._scheduler.num_waiting
        self._status.update(stats=self._stats.snapshot())
        self._next_stats_s = time.monotonic() + _STATS_S

    def _next_job(self) -> _Job | None:
        """Wait for a request to run; ``None``: the engine is closed."""
        with self._changed:
            while not self._is_closed:
                if (request := self._scheduler.schedule()) is not None:
                    return self._jobs[request.order]
                self._changed.wait()
        return None


def _close(job: _Job) -> None:
    if (fault := fault_of(job.pieces.close)) is not None:
        logger.error("a generator failed while it was closed", exc_info=fault)


def _settle(
    future: "asyncio.Future[GeneratorItem | None]", outcome: GeneratorItem | Exception | None
) -> None:
    if future.done():  # its consumer has left
        return
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
