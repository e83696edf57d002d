"""A status is published when it changes; a step that does not end is seen in it."""

import threading
from types import SimpleNamespace

import pytest

from antiphon.telemetry import stage_status
from antiphon.telemetry.stage_status import StageStatus, StatusPublisher


def test_only_the_step_under_way_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 20.0
    monkeypatch.setattr(stage_status, "time", SimpleNamespace(monotonic=lambda: now_s))
    published: list[StageStatus] = []
    publisher = StatusPublisher(published.append)
    assert publisher.status.stalled_s() == 0
    with publisher.step():
        now_s = 25.0
        assert publisher.status.stalled_s() == 5
    assert publisher.status.stalled_s() == 0
    assert [each.step_began_s for each in published] == [20.0, None]


def test_a_step_that_fails_has_ended() -> None:
    publisher = StatusPublisher()

    def fail() -> None:
        with publisher.step():
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert publisher.status.stalled_s() == 0


def test_the_longest_step_of_several_threads_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    times_s = iter((1.0, 2.0))
    monkeypatch.setattr(stage_status, "time", SimpleNamespace(monotonic=lambda: next(times_s)))
    publisher = StatusPublisher()
    with publisher.step():

        def step_inside() -> None:
            with publisher.step():
                assert publisher.status.step_began_s == 1.0

        thread = threading.Thread(target=step_inside)
        thread.start()
        thread.join()
        assert publisher.status.step_began_s == 1.0


def test_open_requests_are_counted() -> None:
    publisher = StatusPublisher()
    publisher.update(capacity=4, opened=3)
    assert (publisher.status.num_open, publisher.status.capacity) == (3, 4)
    publisher.update(opened=-1)
    assert publisher.status.num_open == 2


def test_a_chain_is_as_wide_as_its_narrowest_stage() -> None:
    first = StageStatus(num_open=2, capacity=8, step_began_s=5.0, num_bytes=1)
    second = StageStatus(num_open=1, capacity=4, failure="broken", step_began_s=3.0, num_bytes=2)
    assert StageStatus.merged([first, second]) == StageStatus(3, 4, "broken", 3.0, 3)
