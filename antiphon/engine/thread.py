"""Lifetime, status and statistics of an engine's threads."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from math import inf

from antiphon.engine.faults import fault_of
from antiphon.errors import EngineFailedError
from antiphon.telemetry.engine_stats import EngineStats
from antiphon.telemetry.stage_status import Publish, StatusPublisher

logger = logging.getLogger(__name__)

CLOSE_S = 5.0
_CLOSED = "The model has been closed."
_STATS_S = 0.25  # between two publications of statistics


class EngineThread:
    """The threads of one engine, and what it publishes.

    The threads are daemons: one that hangs delays neither the engine's closing nor the process's
    exit. An exception that leaves the work of a thread breaks the engine for good.

    Attributes:
        changed: guard of the engine's state, notified when there may be work.
        is_closed: whether requests are refused, and the threads end.
    """

    def __init__(
        self,
        work: Callable[[], None],
        end_all: Callable[[], None],
        snapshot: Callable[[], EngineStats],
        *,
        name: str,
        num_threads: int = 1,
        publish: Publish | None = None,
    ) -> None:
        """Prepare the threads; see `start`.

        Args:
            work: function of each thread, which runs until the engine is closed.
            end_all: ends open requests, when the engine is closed and when a thread's work is over.
        """
        self.changed = threading.Condition()
        self.is_closed = False
        self.status = StatusPublisher(publish)
        self._work = work
        self._end_all = end_all
        self._snapshot = snapshot
        self._next_stats_s = 0.0
        names = [name] if num_threads == 1 else [f"{name}-{n}" for n in range(num_threads)]
        self._threads = [
            threading.Thread(target=self._run, name=name, daemon=True) for name in names
        ]

    def start(self, *, capacity: int) -> None:
        """Start the threads; ``capacity`` requests are served at once."""
        self.status.update(capacity=capacity)
        for thread in self._threads:
            thread.start()

    @property
    def failure(self) -> str | None:
        """What broke the engine, or ``None`` while it works."""
        return self.status.status.failure

    @property
    def num_open(self) -> int:
        return self.status.status.num_open

    @contextmanager
    def opened(self) -> Generator[None, None, None]:
        """Count an open request for as long as the block lasts."""
        self.status.update(opened=1)
        try:
            yield
        finally:
            self.status.update(opened=-1)

    def check(self) -> None:
        """Raise EngineFailedError if the engine is closed or broken."""
        if self.is_closed or self.failure:
            raise self.error()

    def error(self) -> EngineFailedError:
        """Return the error of all requests of a closed or broken engine."""
        return EngineFailedError(self.failure or _CLOSED)

    def publish_stats(self, *, is_idle: bool = False) -> None:
        """Publish statistics a few times a second, and whenever the engine becomes idle."""
        if is_idle or time.monotonic() >= self._next_stats_s:
            self.status.update(stats=self._snapshot())
            self._next_stats_s = time.monotonic() + _STATS_S

    async def close(self) -> None:
        with self.changed:
            self.is_closed = True
            self._end_all()
            self.changed.notify_all()
        await self.join(CLOSE_S)

    async def join(self, timeout_s: float = inf) -> None:
        """Wait for the threads to end; abandon those that take longer than ``timeout_s``."""
        ends_s = time.monotonic() + timeout_s
        for thread in self._threads:
            left_s = None if ends_s == inf else max(ends_s - time.monotonic(), 0.0)
            await asyncio.to_thread(thread.join, left_s)
        if any(thread.is_alive() for thread in self._threads):
            logger.error("a step did not end in time: its thread is abandoned")

    def _run(self) -> None:
        if (fault := fault_of(self._work)) is not None:
            logger.error("the engine failed", exc_info=fault)
            self.status.update(failure=f"{type(fault).__name__}: {fault}")
        self._end_all()
