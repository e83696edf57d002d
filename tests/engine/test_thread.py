"""An engine's threads: a fault ends all requests and is published; closing never hangs."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from antiphon.engine import thread as engine_thread
from antiphon.engine.thread import ThreadedEngine
from antiphon.errors import EngineFailedError
from antiphon.telemetry.stage_status import EngineStats, Publish, StageStatus


class FakeEngine(ThreadedEngine):
    def __init__(
        self,
        work: Callable[[], None] = lambda: None,
        end_all: Callable[[], None] = lambda: None,
        *,
        num_threads: int = 1,
        publish: Publish | None = None,
    ) -> None:
        super().__init__(name="fake", num_threads=num_threads, publish=publish)
        self.work, self.end_all = work, end_all

    def _work(self) -> None:
        self.work()

    def _end_all(self) -> None:
        self.end_all()

    def _snapshot(self) -> EngineStats:
        return EngineStats()


def test_a_fault_in_a_threads_work_ends_all_requests_and_refuses_others() -> None:
    ended, statuses = threading.Event(), list[StageStatus]()

    def work() -> None:
        raise KeyError("a defect of the engine")

    engine = FakeEngine(work, ended.set, publish=statuses.append)
    engine._check_works()
    engine._start(capacity=3)
    asyncio.run(engine._join())
    assert ended.is_set()
    assert engine.failure == statuses[-1].failure == "KeyError: 'a defect of the engine'"
    assert statuses[-1].capacity == 3
    with pytest.raises(EngineFailedError):
        engine._check_works()


def test_closing_ends_requests_once_and_all_threads() -> None:
    num_ended = 0

    def end_all() -> None:
        nonlocal num_ended
        num_ended += 1

    def work() -> None:
        with engine._changed:
            engine._changed.wait_for(lambda: engine._is_closed)

    engine = FakeEngine(work, end_all, num_threads=3)
    engine._start(capacity=1)
    with engine._counted():
        assert engine._status.status.num_open == 1
    asyncio.run(engine.close())
    assert engine._status.status.num_open == 0
    assert num_ended == 1 + 3
    assert not any(each.name.startswith("fake") for each in threading.enumerate())
    with pytest.raises(EngineFailedError, match="closed"):
        engine._check_works()


def test_a_thread_that_hangs_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_thread, "CLOSE_S", 0.01)
    go_on = threading.Event()
    engine = FakeEngine(lambda: assert_set(go_on))
    engine._start(capacity=1)
    asyncio.run(engine.close())
    go_on.set()
    asyncio.run(engine._join())
    assert engine.failure is None


def assert_set(event: threading.Event) -> None:
    assert event.wait(30)


def test_statistics_are_published_now_and_then_and_when_the_engine_is_idle() -> None:
    statuses = list[StageStatus]()
    engine = FakeEngine(publish=statuses.append)
    for _ in range(1000):
        engine._publish_stats()
    num_published = len(statuses)
    assert 1 <= num_published < 1000
    engine._publish_stats(is_idle=True)
    assert len(statuses) > num_published
