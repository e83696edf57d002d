"""An engine's threads: a fault ends all requests and is published; closing never hangs."""

import asyncio
import threading

import pytest

from antiphon.engine import thread as engine_thread
from antiphon.engine.thread import EngineThread
from antiphon.errors import EngineFailedError
from antiphon.telemetry.stage_status import EngineStats, StageStatus


def test_a_fault_in_a_threads_work_ends_all_requests_and_refuses_others() -> None:
    ended, statuses = threading.Event(), list[StageStatus]()

    def work() -> None:
        raise KeyError("a defect of the engine")

    threads = EngineThread(work, ended.set, EngineStats, name="broken", publish=statuses.append)
    threads.check()
    threads.start(capacity=3)
    asyncio.run(threads.join())
    assert ended.is_set()
    assert threads.failure == statuses[-1].failure == "KeyError: 'a defect of the engine'"
    assert statuses[-1].capacity == 3
    with pytest.raises(EngineFailedError):
        threads.check()


def test_closing_ends_requests_once_and_all_threads() -> None:
    num_ended = 0

    def end_all() -> None:
        nonlocal num_ended
        num_ended += 1

    def work() -> None:
        with threads.changed:
            threads.changed.wait_for(lambda: threads.is_closed)

    threads = EngineThread(work, end_all, EngineStats, name="several", num_threads=3)
    threads.start(capacity=1)
    with threads.opened():
        assert threads.num_open == 1
    asyncio.run(threads.close())
    assert threads.num_open == 0
    assert num_ended == 1 + 3
    assert not any(each.name.startswith("several") for each in threading.enumerate())
    with pytest.raises(EngineFailedError, match="closed"):
        threads.check()


def test_a_thread_that_hangs_is_abandoned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_thread, "CLOSE_S", 0.01)
    go_on = threading.Event()
    threads = EngineThread(lambda: assert_set(go_on), lambda: None, EngineStats, name="hanging")
    threads.start(capacity=1)
    asyncio.run(threads.close())
    go_on.set()
    asyncio.run(threads.join())
    assert threads.failure is None


def assert_set(event: threading.Event) -> None:
    assert event.wait(30)


def test_statistics_are_published_now_and_then_and_when_the_engine_is_idle() -> None:
    statuses = list[StageStatus]()
    threads = EngineThread(
        lambda: None, lambda: None, EngineStats, name="counting", publish=statuses.append
    )
    for _ in range(1000):
        threads.publish_stats()
    num_published = len(statuses)
    assert 1 <= num_published < 1000
    threads.publish_stats(is_idle=True)
    assert len(statuses) > num_published
