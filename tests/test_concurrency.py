"""Threads and loops: results, errors, context, and a cancellation that waits for the call."""

import asyncio
import concurrent.futures
import gc
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager
from functools import partial

import pytest

from antiphon import concurrency
from antiphon.concurrency import (
    LoopCalls,
    Workers,
    merged,
    run_with_producer,
    set_interpreter_for_streams,
)
from antiphon.telemetry.logs import request_id, request_scope


async def test_results_errors_and_context_cross_the_thread() -> None:
    workers = Workers("test", 1)
    assert await workers.run(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        await workers.run(divmod, 1, 0)
    with request_scope("req_1"):
        assert await workers.run(request_id.get) == "req_1"
    workers.close()


async def test_cancelling_waits_for_the_call_under_way() -> None:
    workers = Workers("test", 1)
    entered, leave = threading.Event(), threading.Event()
    has_left = False

    def work() -> None:
        nonlocal has_left
        entered.set()
        leave.wait(10)
        has_left = True

    task = asyncio.create_task(workers.run(work))
    await asyncio.to_thread(entered.wait, 10)
    task.cancel()
    await asyncio.sleep(0.02)
    assert not task.done()
    task.cancel()
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert has_left
    workers.close()


async def test_a_cancelled_call_that_has_not_begun_never_begins() -> None:
    workers = Workers("test", 1)
    leave = threading.Event()
    calls: list[int] = []
    first = asyncio.create_task(workers.run(leave.wait, 10))
    second = asyncio.create_task(workers.run(calls.append, 1))
    await asyncio.sleep(0.02)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    leave.set()
    await first
    assert not calls
    workers.close()


@contextmanager
def other_loop() -> Generator[LoopCalls, None, None]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield LoopCalls(loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def where(value: int) -> tuple[int, str, int]:
    return threading.get_ident(), request_id.get(), value


async def fail() -> None:
    raise ZeroDivisionError


def test_results_errors_and_context_cross_the_loops() -> None:
    async def main(calls: LoopCalls) -> tuple[int, str, int]:
        with pytest.raises(ZeroDivisionError):
            await calls.arun(fail)
        with request_scope("req_1"):
            return await calls.arun(where, 3)

    with other_loop() as calls:
        thread, id, value = calls.run(where, 2)
        assert (thread != threading.get_ident(), id, value) == (True, "-", 2)
        assert asyncio.run(main(calls)) == (thread, "req_1", 3)
        with pytest.raises(ZeroDivisionError):
            calls.run(fail)


class Endless:
    """A call that ends when it is cancelled, a little later."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.has_ended = False

    async def run(self) -> None:
        try:
            self.has_begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.02)
            self.has_ended = True


def test_a_task_that_leaves_cancels_the_call_and_waits_for_its_end() -> None:
    endless = Endless()

    async def main(calls: LoopCalls) -> None:
        task = asyncio.create_task(calls.arun(endless.run))
        await asyncio.to_thread(endless.has_begun.wait, 10)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert endless.has_ended

    with other_loop() as calls:
        asyncio.run(main(calls))


def test_a_thread_that_is_interrupted_does_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = Endless()

    class Interrupted(concurrent.futures.Future[None]):
        """Of this test's call alone: the event loops of other tests' servers ask theirs, too."""

        def result(self, timeout: float | None = None) -> None:
            endless.has_begun.wait(10)
            raise KeyboardInterrupt  # as Ctrl-C does while a thread waits

    with other_loop() as calls:
        monkeypatch.setattr(concurrency, "Future", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            calls.run(endless.run)
        assert endless.has_ended
        assert asyncio.run(asyncio.to_thread(len, "ab")) == 2, "nobody else is interrupted"


def test_a_call_that_cancels_itself_is_cancelled_for_its_caller() -> None:
    async def leave() -> None:
        raise asyncio.CancelledError

    async def main(calls: LoopCalls) -> None:
        with pytest.raises(asyncio.CancelledError):
            await calls.arun(leave)

    with other_loop() as calls:
        asyncio.run(main(calls))
        with pytest.raises(concurrent.futures.CancelledError):
            calls.run(leave)


async def items(num: int, *, then_wait: bool = False) -> AsyncGenerator[int, None]:
    for number in range(num):
        yield number
    if then_wait:
        await asyncio.Event().wait()


async def test_an_error_of_the_producer_ends_the_stream() -> None:
    async def fail() -> None:
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        async for _ in run_with_producer(items(3, then_wait=True), fail):
            pass


async def test_a_stream_outlives_its_producer_and_stops_it_at_its_end() -> None:
    states: list[str] = []

    async def produce(*, for_ever: bool) -> None:
        try:
            if for_ever:
                await asyncio.Event().wait()
        finally:
            states.append("ended")

    for for_ever in (False, True):
        received = [
            each async for each in run_with_producer(items(3), partial(produce, for_ever=for_ever))
        ]
        assert received == [0, 1, 2]
    stream = run_with_producer(items(3), partial(produce, for_ever=True))
    await anext(stream)
    await stream.aclose()
    assert states == ["ended"] * 3


async def test_merged_streams_come_as_they_come_and_are_closed() -> None:
    closed: list[int] = []

    async def counting(
        number: int, gate: asyncio.Event, num_items: int
    ) -> AsyncGenerator[int, None]:
        try:
            await gate.wait()
            for item in range(num_items):
                yield item
            if num_items == 2:
                raise ValueError("broken")
        finally:
            closed.append(number)

    late, now = asyncio.Event(), asyncio.Event()
    now.set()
    items = merged([counting(0, late, 1), counting(1, now, 3)])
    assert [await anext(items) for _ in range(3)] == [(1, 0), (1, 1), (1, 2)]
    late.set()
    assert [item async for item in items] == [(0, 0)]
    assert closed == [1, 0]
    closed.clear()
    broken = merged([counting(0, asyncio.Event(), 1), counting(1, now, 2)])
    with pytest.raises(ValueError, match="broken"):
        async for _ in broken:
            pass
    assert sorted(closed) == [0, 1]


SETTLING = """
import gc, weakref
from antiphon.concurrency import settle_heap

class Node:
    def __init__(self):
        self.itself = self

gone, kept = [weakref.ref(Node()) for _ in range(3)], Node()
late = weakref.ref(kept)
settle_heap()
assert not any(each() for each in gone)
assert gc.get_freeze_count() > 1000
assert not any(each is kept for each in gc.get_objects())
del kept
settle_heap()
assert late() is None, "what was given up is freed the next time"
"""


def test_what_is_there_is_left_to_no_collection_and_garbage_is_freed_before() -> None:
    # In a process without the tests, whose objects would take seconds to be gone over.
    subprocess.run([sys.executable, "-c", SETTLING], check=True)


def test_objects_of_several_requests_are_made_before_a_collection() -> None:
    thresholds, switch_s = gc.get_threshold(), sys.getswitchinterval()
    generations, callbacks = list[int](), [*gc.callbacks]

    def note(phase: str, info: dict[str, int]) -> None:
        generations.append(info["generation"])

    try:
        set_interpreter_for_streams()
        gc.collect()
        gc.callbacks.append(note)
        kept: list[list[int]] = [[] for _ in range(4000)]  # some 1000 in a request
    finally:
        gc.callbacks[:] = callbacks
        gc.set_threshold(*thresholds)
        sys.setswitchinterval(switch_s)
    assert len(kept) == 4000
    assert generations == []
