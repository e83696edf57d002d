"""Engines that run in threads: lifetime and status, and queues to event loops."""

import asyncio
import logging
import queue
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from math import inf
from typing import Any, Generic, TypeVar

from antiphon.contracts.picture_types import Progress
from antiphon.engine.faults import fault_of
from antiphon.engine.runner import PendingStep
from antiphon.errors import EngineFailedError
from antiphon.telemetry.stage_status import EngineStats, Publish, StatusPublisher

logger = logging.getLogger(__name__)

CLOSE_S = 5.0
_CLOSED = "The model has been closed."
_JOIN_S = 1.0
_STATS_S = 0.25  # between two publications of statistics

Item = TypeVar("Item")


class ThreadedEngine(ABC):
    """An engine that works in threads of its own, and publishes its status.

    The threads are daemons: one that hangs delays neither the engine's closing nor the process's
    exit. An exception that leaves the work of a thread breaks the engine for good.

    Attributes:
        _changed: guard of the engine's state, notified when there may be work.
        _is_closed: whether requests are refused, and the threads end.
    """

    def __init__(self, *, name: str, num_threads: int = 1, publish: Publish | None = None) -> None:
        """Prepare the threads; see `_start`."""
        self._changed = threading.Condition()
        self._is_closed = False
        self._status = StatusPublisher(publish)
        self._next_stats_s = 0.0
        names = [name] if num_threads == 1 else [f"{name}-{n}" for n in range(num_threads)]
        self._threads = [
            threading.Thread(target=self._run, name=name, daemon=True) for name in names
        ]

    @abstractmethod
    def _work(self) -> None:
        """Work in each thread until the engine is closed."""

    @abstractmethod
    def _end_all(self) -> None:
        """End open requests, when the engine is closed and when a thread's work is over."""

    @abstractmethod
    def _snapshot(self) -> EngineStats:
        """Return a copy of the statistics."""

    def _start(self, *, capacity: int) -> None:
        """Start the threads; ``capacity`` requests are served at once."""
        self._status.update(capacity=capacity)
        for thread in self._threads:
            thread.start()

    @property
    def failure(self) -> str | None:
        """What broke the engine, or ``None`` while it works."""
        return self._status.status.failure

    @contextmanager
    def _counted(self) -> Generator[None, None, None]:
        """Count an open request for as long as the block lasts."""
        self._status.update(opened=1)
        try:
            yield
        finally:
            self._status.update(opened=-1)

    def _check_works(self) -> None:
        """Raise EngineFailedError if the engine is closed or broken."""
        if self._is_closed or self.failure:
            raise self._closed_error()

    def _closed_error(self) -> EngineFailedError:
        return EngineFailedError(self.failure or _CLOSED)

    def _publish_stats(self, *, is_idle: bool = False) -> None:
        """Publish statistics a few times a second, and whenever the engine becomes idle."""
        if is_idle or time.monotonic() >= self._next_stats_s:
            self._status.update(stats=self._snapshot())
            self._next_stats_s = time.monotonic() + _STATS_S

    async def close(self) -> None:
        """End all requests; wait a few seconds for work in flight."""
        with self._changed:
            self._is_closed = True
            self._end_all()
            self._changed.notify_all()
        await self._join(CLOSE_S)

    async def _join(self, timeout_s: float = inf) -> None:
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
            self._status.update(failure=f"{type(fault).__name__}: {fault}")
        self._end_all()


class Outbox(Generic[Item]):
    """A queue from any thread to one consumer, on the event loop that makes it.

    Of several `Progress` in a row that are unread only the last one is kept, so that a slow
    consumer of an image holds little.
    """

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._items: deque[Item | Exception] = deque()
        self.has_items = asyncio.Event()

    def put(self, item: Item | Exception) -> bool:
        """Add an item, or what `get` raises; return whether the consumer's event loop is open."""
        return not put_all([(self, item)])

    async def get(self) -> Item:
        """Return the next item, or raise it; has one caller at a time."""
        while True:
            with self._lock:
                if self._items:
                    item = self._items.popleft()
                    break
                self.has_items.clear()
            await self.has_items.wait()
        if isinstance(item, Exception):
            raise item
        return item

    def add(self, item: Item | Exception) -> bool:
        """Add an item; return whether the consumer must be woken by `wake_all`."""
        with self._lock:
            if self._items and isinstance(item, Progress) and isinstance(self._items[-1], Progress):
                self._items[-1] = item
                return False
            self._items.append(item)
            return len(self._items) == 1


def put_all(items: Iterable[tuple[Outbox[Any], Any]]) -> list[asyncio.AbstractEventLoop]:
    """Add items to outboxes by one call for each event loop; return the loops that are closed."""
    waiting: dict[asyncio.AbstractEventLoop, list[Outbox[Any]]] = {}
    for outbox, item in items:
        outboxes = waiting.setdefault(outbox.loop, [])
        if outbox.add(item):
            outboxes.append(outbox)
    closed = []
    for loop, outboxes in waiting.items():
        try:
            if outboxes or loop.is_closed():
                loop.call_soon_threadsafe(wake_all, outboxes)
        except RuntimeError:  # it is closed
            closed.append(loop)
    return closed


def wake_all(outboxes: Iterable[Outbox[Any]]) -> None:
    """Wake the consumers of outboxes of the running event loop."""
    for outbox in outboxes:
        outbox.has_items.set()


class StepWaiter:
    """Reports the end of the step that is watched; the thread starts with the first one."""

    def __init__(self, on_end: Callable[[PendingStep, float], None], name: str) -> None:
        """Prepare the thread, which calls ``on_end`` with a step and its monotonic end time."""
        self._on_end = on_end
        self._name = name
        self._steps: queue.SimpleQueue[PendingStep | None] = queue.SimpleQueue()
        self._step: PendingStep | None = None  # written by the engine's thread alone
        self._thread: threading.Thread | None = None

    def watch(self, step: PendingStep | None) -> None:
        """Watch a step instead of the one before; ``None``: none."""
        if step is self._step:
            return
        self._step = step
        if step is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._steps.put(step)

    def close(self) -> None:
        """End the thread; one that hangs in a device call is abandoned."""
        self._step = None
        self._steps.put(None)
        if self._thread is not None:
            self._thread.join(_JOIN_S)

    def _run(self) -> None:
        while (step := self._steps.get()) is not None:
            if step is self._step:
                fault_of(step.wait)  # its result raises the fault again
                ended_s = time.monotonic()
                if step is self._step:
                    self._on_end(step, ended_s)
