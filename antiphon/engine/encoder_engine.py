"""A thread that encodes what waits, in batches: while one is computed, the next one collects."""

import asyncio
import logging
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.prompt import BatchEncoder, EncodingBatch
from antiphon.contracts.types import Latents
from antiphon.engine.faults import fault_of
from antiphon.errors import EngineFailedError
from antiphon.telemetry.engine_stats import EngineStats
from antiphon.telemetry.stage_status import Publish, StatusPublisher

logger = logging.getLogger(__name__)

_CLOSE_S = 5.0
_CLOSED = "The model has been closed."


@dataclass(slots=True, eq=False)
class _Item:
    """Data, and the future of what is made of it; whoever waits for that may cancel it."""

    data: Any
    batch: EncodingBatch
    made: "Future[Latents]" = field(default_factory=Future)


class EncoderEngine:
    """Encodes data in order of arrival, together with all that waits and can share its batch.

    What is cancelled before its batch begins is not encoded; after that it is dropped. Data that
    fails in a batch is encoded alone, so that it fails alone. The thread is a daemon: a batch that
    hangs delays neither the engine's closing nor the process's exit.
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
        """Start the thread.

        Args:
            encoder: closed with the engine.
            name: of the thread.
            capacity: requests that are as well served at once.
            limits: of what is admitted.
            publish: takes each change of the engine's status.
        """
        self._encoder = encoder
        self._limits = limits or AdmissionLimits()
        self._waiting: list[_Item] = []
        self._num_running = 0
        self._changed = threading.Condition()
        self._is_closed = False
        self._status = StatusPublisher(publish)
        self._status.update(capacity=capacity)
        self._stats = EngineStats()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    @property
    def num_open(self) -> int:
        """Requests that have not ended."""
        return self._status.status.num_open

    async def encode(self, data: Any, *, is_live: bool = True, is_later: bool = False) -> Latents:
        """Return what the encoder makes of ``data``; a caller that is cancelled leaves its batch.

        Args:
            data: of the encoder.
            is_live: whether somebody listens; otherwise its priority is offline.
            is_later: whether it belongs to what was admitted.

        Raises:
            InvalidRequestError: the data will not do.
            OverloadedError: too much waits.
            EngineFailedError: the engine has been closed.
        """
        item = _Item(data, self._encoder.batch_of(data))
        with self._changed:
            if self._is_closed:
                raise EngineFailedError(_CLOSED)
            if (self._waiting or self._num_running) and not is_later:
                self._limits.check(len(self._waiting), 0.0, is_live=is_live)
            self._waiting.append(item)
            self._changed.notify()
        self._status.update(opened=1)
        try:
            return await asyncio.wrap_future(item.made)
        finally:
            self._leave(item)
            self._status.update(opened=-1)

    async def close(self) -> None:
        """End everything; a batch in flight is waited for, for a few seconds."""
        with self._changed:
            self._is_closed = True
            waiting, self._waiting = self._waiting, []
            self._changed.notify()
        for item in waiting:
            if item.made.set_running_or_notify_cancel():
                item.made.set_exception(EngineFailedError(_CLOSED))
        await asyncio.to_thread(self._thread.join, _CLOSE_S)
        if self._thread.is_alive():
            logger.error("a batch did not end in time: its thread is abandoned")
        self._encoder.close()

    def _leave(self, item: _Item) -> None:
        with self._changed:
            if item in self._waiting:
                self._waiting.remove(item)

    def _work(self) -> None:
        while items := self._next_batch():
            began_s = time.monotonic()
            with self._status.step():
                self._run(items)
            self._stats.step_seconds["encode"].observe(time.monotonic() - began_s)
            self._stats.record_rows(encode=len(items))
            with self._changed:
                self._num_running = 0
                self._stats.requests_waiting = len(self._waiting)
            self._status.update(stats=self._stats.snapshot())

    def _next_batch(self) -> list[_Item]:
        """Wait for data; return the longest that waits and what can join it; empty: closed."""
        with self._changed:
            while not self._is_closed:
                first = next(iter(self._waiting), None)
                if first is None:
                    self._changed.wait()
                    continue
                fitting = [each for each in self._waiting if each.batch.key == first.batch.key]
                taken = fitting[: first.batch.max_size]
                self._waiting = [each for each in self._waiting if each not in taken]
                if items := [each for each in taken if each.made.set_running_or_notify_cancel()]:
                    self._num_running = len(items)
                    return items
        return []

    def _run(self, items: list[_Item]) -> None:
        made: list[Latents] = []

        def encode() -> None:
            made.extend(self._encoder.encode_batch([item.data for item in items]))
            assert len(made) == len(items), "something is made of all data"

        fault = fault_of(encode)
        if fault is None:
            for item, latents in zip(items, made, strict=True):
                item.made.set_result(latents)
        elif len(items) == 1:
            items[0].made.set_exception(fault)
        else:
            for item in items:
                self._run([item])
