"""Interpreter pauses, worker threads, single-flight caches, calls between loops, producers."""

import asyncio
import contextvars
import gc
import os
import sys
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import aclosing, suppress
from functools import partial
from threading import Lock
from typing import Any, Generic, TypeVar

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

_COLLECTION_THRESHOLDS = 5000, 3, 45
"""Objects until a young collection, these until a middle one, these until a full one."""
_SWITCH_S = 0.5e-3
"""After which a thread lets another one run that waits; Python's default is ten times as long."""


class Workers:
    """A pool of threads that coroutines hand blocking calls to, served in order of arrival."""

    def __init__(self, name: str, num_threads: int | None = None) -> None:
        """Create a pool; ``num_threads`` defaults to the number of cores that we may use."""
        self._pool = ThreadPoolExecutor(num_threads or num_usable_cores(), name)

    async def run(self, function: Callable[..., T], *args: object) -> T:
        """Call ``function(*args)`` in a thread, in the caller's context.

        If the caller is cancelled, the call is waited for (or never begun) before the
        cancellation goes on: its memory may be freed at once.
        """
        context = contextvars.copy_context()
        future = self._pool.submit(context.run, function, *args)
        waiting = asyncio.wrap_future(future)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            if not future.cancel():
                await until_ended(waiting)
            raise

    def close(self) -> None:
        """Refuse further calls; those under way run to their end."""
        self._pool.shutdown(wait=False, cancel_futures=True)


class LoopCalls:
    """Calls to an event loop that runs in another thread, from that of the caller.

    A caller that stops waiting (a cancelled task, Ctrl-C) cancels the call, and waits until it has
    ended: an asynchronous generator, for one, must not be closed while it runs.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def run(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """Return what ``await function(*args)`` gives; blocks the calling thread.

        Raises:
            RuntimeError: the calling thread is the loop's own, which would wait for itself.
        """
        if _is_running_here(self._loop):
            raise RuntimeError("an event loop cannot wait for itself")
        call: _LoopCall[T] = _LoopCall(self._loop, partial(function, *args))
        try:
            call.start()
            return call.result.result()
        finally:
            if not call.result.done():  # the wait was interrupted
                call.cancel()
                wait([call.result])

    async def arun(self, function: Callable[..., Awaitable[T]], *args: object) -> T:
        """Return what ``await function(*args)`` gives; blocks nothing."""
        call: _LoopCall[T] = _LoopCall(self._loop, partial(function, *args))
        waiting = asyncio.wrap_future(call.result)
        call.start()
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            call.cancel()  # no-op if it has ended
            await until_ended(waiting)
            raise


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class _LoopCall(Generic[T]):
    def __init__(
        self, loop: asyncio.AbstractEventLoop, function: Callable[[], Awaitable[T]]
    ) -> None:
        self.result: Future[T] = Future()
        self._loop = loop
        self._function = function
        self._task: asyncio.Task[T] | None = None

    def start(self) -> None:
        self._loop.call_soon_threadsafe(self._start, context=contextvars.copy_context())

    def cancel(self) -> None:
        """Cancel it, even if it was interrupted in `start`; `result` is set when it has ended."""
        self._loop.call_soon_threadsafe(self._cancel)

    def _start(self) -> None:
        self._task = self._loop.create_task(self._awaited())
        self._task.add_done_callback(self._ended)

    async def _awaited(self) -> T:
        return await self._function()

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()
        else:  # a loop runs what it is given in order: `_start` is not among it
            self._say_cancelled()

    def _say_cancelled(self) -> None:
        self.result.cancel()
        self.result.set_running_or_notify_cancel()  # which `wait` waits for

    def _ended(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self._say_cancelled()
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())


async def cancel_and_wait(*tasks: "asyncio.Future[Any]") -> None:
    """Cancel tasks that have not ended, and return when all have; their errors are not raised."""
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks)
    _retrieve_errors(tasks)


async def until_ended(*tasks: "asyncio.Future[Any]") -> None:
    """Wait until all have ended, through further cancellations too; their errors are not raised."""
    while not all(task.done() for task in tasks):
        with suppress(asyncio.CancelledError):
            await asyncio.wait(tasks)
    _retrieve_errors(tasks)


def _retrieve_errors(tasks: "Sequence[asyncio.Future[Any]]") -> None:
    """Retrieve errors, so that the loop does not report them as lost."""
    for task in tasks:
        if not task.cancelled():
            task.exception()


async def run_with_producer(
    items: AsyncGenerator[T, None], produce: Callable[[], Coroutine[Any, Any, None]]
) -> AsyncGenerator[T, None]:
    """Yield ``items`` while ``produce()`` supplies them; raises what either side raises."""
    async with aclosing(items):
        # Tasks start in the order of their creation: the consumer exists before its producer runs.
        next_item = asyncio.ensure_future(anext(items, None))
        producer = asyncio.create_task(produce())
        try:
            while (item := await _beside(producer, next_item)) is not None:
                yield item
                next_item = asyncio.ensure_future(anext(items, None))
        finally:
            await cancel_and_wait(next_item)
            await cancel_and_wait(producer)
            del next_item, producer  # their errors' tracebacks refer to this frame


async def merged(streams: Sequence[AsyncGenerator[T, None]]) -> AsyncGenerator[tuple[int, T], None]:
    """Yield the items of streams as they come, each with its stream's number; closes all of them.

    At most one item of each stream is pulled ahead. The first that fails ends all.
    """
    pulls: dict[asyncio.Future[T], int] = {}

    def pull(number: int) -> None:
        pulls[asyncio.ensure_future(anext(streams[number]))] = number

    try:
        for number in range(len(streams)):
            pull(number)
        while pulls:
            done, _ = await asyncio.wait(pulls, return_when=asyncio.FIRST_COMPLETED)
            for each in [each for each in pulls if each in done]:  # in the order of their begin
                number = pulls.pop(each)
                try:
                    item = each.result()
                except StopAsyncIteration:
                    continue
                pull(number)
                yield number, item
    finally:
        await cancel_and_wait(*pulls)
        for stream in streams:
            await stream.aclose()


async def _beside(producer: "asyncio.Task[None]", next_item: "asyncio.Future[T]") -> T:
    """Return the next item; raises the producer's error if that fails first."""
    if not producer.done():
        await asyncio.wait((next_item, producer), return_when=asyncio.FIRST_COMPLETED)
    if producer.done() and not next_item.done():
        producer.result()
    return await next_item


def set_interpreter_for_streams() -> None:
    """Keep pauses short in which no thread, or only one of them, can run.

    A full collection goes over all that open streams hold: 500 objects for each WebSocket, 190 ms
    with 480 of them, every ten seconds by default; young ones take 5 % of a burst's time. An engine
    that has to launch a step waits for another thread: up to the switch interval, maybe a step.
    """
    gc.set_threshold(*_COLLECTION_THRESHOLDS)
    sys.setswitchinterval(_SWITCH_S)


def settle_heap() -> None:
    """Have collections go over nothing that is there by now; what is garbage is freed before.

    With a model loaded there are 200,000 objects, a full collection of which holds up every stream
    for 90 ms. Called once something is loaded, and again when it was given up.
    """
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def num_usable_cores() -> int:
    """Return how many cores this process may run on, at least one."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class SingleFlightLRU(Generic[K, V]):
    """Results by key, the least recently used forgotten first; safe for threads."""

    def __init__(self, max_entries: int) -> None:
        self._max_entries = max_entries
        self._entries: OrderedDict[K, Future[V]] = OrderedDict()
        self._lock = Lock()

    def __contains__(self, key: K) -> bool:
        """Whether a result of this key exists, or is being made."""
        with self._lock:
            return key in self._entries

    def get(self, key: K, make: Callable[[], V]) -> V:
        """Return the result of ``make()``, or the one that it gave for this key before.

        While it is being made, others who ask for it wait; if it fails, so do they, and the next
        one tries again.
        """
        made: Future[V] = Future()
        with self._lock:
            entry = self._entries.setdefault(key, made)
            self._entries.move_to_end(key)
            if len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)
        if entry is made:
            try:
                made.set_result(make())
            except BaseException as error:
                with self._lock:
                    if self._entries.get(key) is made:
                        del self._entries[key]
                made.set_exception(error)
                raise
        return entry.result()
