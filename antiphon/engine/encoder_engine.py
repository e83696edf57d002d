"""Engine of encoders: while one batch is computed, the next one collects."""

import time
from dataclasses import dataclass, field
from typing import Any

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.prompt import BatchEncoder, EncodingBatch
from antiphon.contracts.types import Latents
from antiphon.engine.faults import fault_of
from antiphon.engine.thread import Outbox, ThreadedEngine
from antiphon.telemetry.stage_status import EngineStats, Publish


@dataclass(slots=True, eq=False)
class _Job:
    """Data to be encoded, and where its latents go."""

    data: Any
    batch: EncodingBatch
    outbox: Outbox[Latents] = field(default_factory=Outbox)


class EncoderEngine(ThreadedEngine):
    """Encodes data in order of arrival, together with all data in the queue of the same batch key.

    Data whose caller leaves before its batch begins is not encoded. Data that fails in a batch is
    encoded alone, so that it fails alone.
    """

    def __init__(
        self,
        encoder: BatchEncoder,
        *,
        name: str = "encoder",
        capacity: int = 1,
        limits: AdmissionLimits | None = None,
        publish: Publish | None = None,
    ) -> None:
        """Start the thread, which serves ``capacity`` requests at once as well as one."""
        super().__init__(name=name, publish=publish)
        self._encoder = encoder
        self._limits = limits or AdmissionLimits()
        self._waiting: list[_Job] = []
        self._num_running = 0
        self._stats = EngineStats()
        self._start(capacity=capacity)

    async def encode(self, data: Any, *, is_live: bool = True, is_later: bool = False) -> Latents:
        """Return the encoder's latents of ``data``; a caller that is cancelled leaves its batch.

        Args:
            is_live: whether a client plays the stream meanwhile; otherwise its priority is offline.
            is_later: whether it belongs to a request that was admitted.

        Raises:
            InvalidRequestError: the data is invalid.
            OverloadedError: too many requests wait.
            EngineFailedError: the engine has been closed.
        """
        job = _Job(data, self._encoder.batch_of(data))
        with self._changed:
            self._check_works()
            if (self._waiting or self._num_running) and not is_later:
                self._limits.check(len(self._waiting), 0.0, is_live=is_live)
            self._waiting.append(job)
            self._changed.notify()
        with self._counted():
            try:
                return await job.outbox.get()
            finally:
                with self._changed:
                    if job in self._waiting:
                        self._waiting.remove(job)

    async def close(self) -> None:
        await super().close()
        self._encoder.close()

    def _end_all(self) -> None:
        with self._changed:
            for job in self._waiting:
                job.outbox.put(self._closed_error())
            self._waiting = []

    def _work(self) -> None:
        while jobs := self._next_batch():
            began_s = time.monotonic()
            with self._status.step():
                self._encode(jobs)
            self._stats.step_seconds["encode"].observe(time.monotonic() - began_s)
            self._stats.record_rows(encode=len(jobs))
            with self._changed:
                self._num_running = 0
                self._publish_stats(is_idle=not self._waiting)

    def _snapshot(self) -> EngineStats:
        self._stats.requests_waiting = len(self._waiting)
        return self._stats.snapshot()

    def _next_batch(self) -> list[_Job]:
        """Wait for data; return the oldest and what can join it; empty: closed."""
        with self._changed:
            while not self._is_closed:
                if self._waiting:
                    first = self._waiting[0].batch
                    fitting = [job for job in self._waiting if job.batch.key == first.key]
                    jobs = fitting[: first.max_size]
                    self._waiting = [job for job in self._waiting if job not in jobs]
                    self._num_running = len(jobs)
                    return jobs
                self._changed.wait()
        return []

    def _encode(self, jobs: list[_Job]) -> None:
        made: list[Latents] = []

        def encode() -> None:
            made.extend(self._encoder.encode_batch([job.data for job in jobs]))
            assert len(made) == len(jobs), "something is made of all data"

        fault = fault_of(encode)
        if fault is None:
            for job, latents in zip(jobs, made, strict=True):
                job.outbox.put(latents)
        elif len(jobs) == 1:
            jobs[0].outbox.put(fault)
        else:
            for job in jobs:
                self._encode([job])
