"""An engine that fails or is closed ends every stream, and keeps no one waiting."""

import asyncio
import contextlib
import time
from contextlib import aclosing
from typing import Any

import pytest

from antiphon.contracts.types import Ended
from antiphon.engine.async_engine import AsyncEngine
from antiphon.engine.scheduler import Scheduler, SchedulerLimits
from antiphon.errors import EngineError, EngineFailedError
from tests.engine.counting_runner import CountingRunner, collect, collect_all, prompt
from tests.loops import until


async def test_a_fault_reaches_every_open_and_every_later_request() -> None:
    engine = AsyncEngine(CountingRunner(fail_at=3))
    calls = [collect(engine, f"r{n}", 10) for n in range(4)]
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(result, EngineError) for result in results)
    assert engine.failure == "ValueError: broken on purpose"
    with pytest.raises(EngineError, match="has failed"):
        await collect(engine, "late", 1)
    await engine.close()
    with pytest.raises(EngineError, match="closed"):
        await collect(engine, "later", 1)


async def test_closing_the_engine_ends_open_streams() -> None:
    engine = AsyncEngine(CountingRunner())
    stream = engine.generate("endless", prompt(None))
    await anext(stream)
    await engine.close()
    async with aclosing(stream):
        *_, last = [event async for event in stream]
    assert last == Ended("abort")


async def test_books_are_checked_when_it_is_quiet_and_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    num_checks = 0
    check = Scheduler.check_integrity

    def counted(scheduler: Scheduler) -> None:
        nonlocal num_checks
        num_checks += 1
        check(scheduler)

    monkeypatch.setattr(Scheduler, "check_integrity", counted)
    engine = AsyncEngine(CountingRunner())
    for number in range(50):  # nothing is to be done between two of them
        await collect(engine, f"r{number}", 1)
    assert num_checks < 25, "who comes next has to wait for it"
    await until(lambda: num_checks)
    num_before = num_checks
    await engine.close()
    assert num_checks > num_before


async def test_wrong_books_do_not_keep_the_engine_from_closing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def wrong(scheduler: Scheduler) -> None:
        raise AssertionError("an open request is lost")

    runner = CountingRunner()
    engine = AsyncEngine(runner)
    stream = engine.generate("endless", prompt(None))
    await anext(stream)
    monkeypatch.setattr(Scheduler, "check_integrity", wrong)
    try:
        async with asyncio.timeout(30):
            await engine.close()
    finally:
        engine._commands.put(None)  # or a thread that does not end would keep the test, too
    assert runner.is_closed
    async with aclosing(stream), asyncio.timeout(30):
        with pytest.raises(EngineFailedError):
            await collect_all(stream)


async def test_a_request_while_the_engine_closes_gets_an_error() -> None:
    class SlowToClose(CountingRunner):
        def close(self) -> None:
            time.sleep(0.2)

    engine = AsyncEngine(SlowToClose())
    closing = asyncio.ensure_future(engine.close())
    await asyncio.sleep(0.05)
    with pytest.raises(EngineError, match="closed"):
        async with asyncio.timeout(5):
            await collect(engine, "late", 3)
    await closing


def test_a_closed_event_loop_ends_its_own_requests_alone() -> None:
    runner = CountingRunner()
    engine = AsyncEngine(runner, limits=SchedulerLimits(max_unread_frames=10**9))

    async def begin() -> Any:
        stream = engine.generate("left behind", prompt(None))
        await anext(stream)
        return stream

    loop = asyncio.new_event_loop()
    stream = loop.run_until_complete(begin())
    loop.close()  # without closing what is open in it

    async def main() -> None:
        assert len(await collect(engine, "other", 5)) == 6
        await until(lambda: not runner.slots)
        await engine.close()

    asyncio.run(main())
    assert engine.failure is None
    with contextlib.suppress(StopIteration, RuntimeError):
        stream.aclose().send(None)
