"""A step that does not end is noticed from outside."""

import pytest

from antiphon.engine.heartbeat import Heartbeat


def test_only_the_step_under_way_counts() -> None:
    now_s = 10.0
    heartbeat = Heartbeat(clock=lambda: now_s)
    now_s = 20.0
    assert heartbeat.stalled_s == 0
    with heartbeat.step():
        now_s = 25.0
        assert heartbeat.stalled_s == 5
    assert heartbeat.stalled_s == 0


def test_a_step_that_fails_has_ended() -> None:
    heartbeat = Heartbeat()

    def fail() -> None:
        with heartbeat.step():
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        fail()
    assert heartbeat.stalled_s == 0
