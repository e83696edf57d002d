"""Admission: generous until something is known, then no stream that would cause gaps."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.contracts.engine_limits import AdmissionLimits
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Sampling
from antiphon.engine.admission import AdmissionControl, Forecast, LengthEstimator, live_capacity
from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.plan import CacheShape
from antiphon.engine.request import EngineRequest
from antiphon.engine.scheduler import Scheduler
from antiphon.errors import OverloadedError
from tests.engine.strict_device import CODEC, Words
from tests.engine.strict_device import prompt as strict_prompt

LIMITS = AdmissionLimits(max_waiting=3, max_waiting_offline=9, max_wait_s=2.0)


def num_let_in(admission: AdmissionControl, *, is_live: bool) -> int:
    for num_open in range(1000):
        try:
            admission.check(num_open, 0.0, is_live=is_live)
        except OverloadedError:
            return num_open
    return 1000


def test_before_anything_is_known_only_the_line_is_bounded() -> None:
    admission = AdmissionControl(4, LIMITS)
    assert num_let_in(admission, is_live=True) == 4 + 3
    assert num_let_in(admission, is_live=False) == 4 + 9


@given(st.lists(st.floats(0.0, 10.0), min_size=1, max_size=6), st.integers(1, 6))
def test_a_listener_waits_for_a_place_that_is_soon_free(
    ends_s: list[float], num_streams: int
) -> None:
    admission = AdmissionControl(8, LIMITS)
    admission.expect(Forecast(num_streams, tuple(sorted(ends_s))))
    for num_ahead in range(3):
        turns, index = divmod(num_ahead, len(ends_s))
        end_s = sorted(ends_s)[index] + turns * max(ends_s)
        if end_s <= (20.0 if num_streams <= 2 else 2.0):
            admission.check(num_streams + num_ahead, 0.0, is_live=True)
        else:
            with pytest.raises(OverloadedError) as caught:
                admission.check(num_streams + num_ahead, 0.0, is_live=True)
            assert (caught.value.retry_after_s or 0.0) >= end_s * 0.999
            assert caught.value.status == 429
    admission.check(num_streams - 1, 0.0, is_live=True)


def refused_for_s(admission: AdmissionControl, num_open: int, now_s: float = 0.0) -> float:
    with pytest.raises(OverloadedError) as caught:
        admission.check(num_open, now_s, is_live=True)
    assert caught.value.retry_after_s is not None
    return caught.value.retry_after_s


def test_those_who_are_refused_are_told_different_times() -> None:
    """Or all would come back at once, for one place."""
    admission = AdmissionControl(4, LIMITS)
    admission.expect(Forecast(4, (5.0, 6.0, 7.0, 8.0)))
    told_s = [refused_for_s(admission, 4) for _ in range(4)]
    assert told_s == pytest.approx([5.0, 6.0, 7.0, 8.0])
    assert refused_for_s(admission, 4, now_s=2.9) == pytest.approx(5.0 + 8.0 - 2.9)
    for _ in range(100):
        longest_s = refused_for_s(admission, 4)
    assert longest_s <= 8.0 * 3, "callers who do not wait make others wait without end"


def stand(admission: AdmissionControl, *, num_in_line: int, rate_hz: float, until_s: float) -> None:
    """Look at a line of one length that moves on, in steps of 10 ms."""
    for step in range(round(until_s * 100)):
        admission.queue.num_queued = num_in_line + round(rate_hz / 100)
        admission.queue.observe(num_in_line, step / 100)


def test_a_line_that_stands_is_kept_short_and_one_of_a_burst_is_not() -> None:
    admission = AdmissionControl(64, AdmissionLimits(max_waiting=100, max_wait_s=2.0))
    admission.expect(Forecast(64, tuple(0.01 * number for number in range(64)), step_s=0.01))
    stand(admission, num_in_line=20, rate_hz=100, until_s=0.2)
    admission.check(84, 0.2, is_live=True)
    stand(admission, num_in_line=20, rate_hz=100, until_s=3.0)
    assert refused_for_s(admission, 84, 3.0) >= 1.0
    admission.check(84, 3.0, is_live=False)
    admission.queue.num_queued = 2
    admission.check(66, 3.0, is_live=True)
    stand(admission, num_in_line=0, rate_hz=0, until_s=8.0)
    admission.queue.num_queued = 20
    admission.check(84, 8.0, is_live=True)


def test_requests_are_admitted_while_their_streams_fit_in_real_time() -> None:
    """A closed loop has a queue at any size: its streams run faster than they are played."""
    admission = AdmissionControl(1700, AdmissionLimits(max_waiting=256, max_wait_s=2.0))
    admission.expect(Forecast(900, tuple(0.01 * number for number in range(500)), step_s=0.03))
    stand(admission, num_in_line=40, rate_hz=150, until_s=6.0)
    assert admission.queue.is_standing(6.0)
    admission.check(899, 6.0, is_live=True)
    assert refused_for_s(admission, 900, 6.0) >= 1.0


@pytest.mark.parametrize("is_anybody_left", [False, True])
def test_a_line_does_not_stand_for_as_long_as_nobody_is_there(is_anybody_left: bool) -> None:
    """An idle engine does not look at its line; those who come next find one that is free."""
    admission = AdmissionControl(64, AdmissionLimits(max_waiting=100, max_wait_s=2.0))
    admission.expect(Forecast(64, tuple(0.01 * number for number in range(64)), step_s=0.01))
    stand(admission, num_in_line=20, rate_hz=100, until_s=3.0)
    admission.queue.observe(0, 3.01)  # all but the long ones, who wait for text, go away
    admission.queue.num_queued = 20
    assert refused_for_s(admission, 84, 3.02) > 0.0
    if not is_anybody_left:
        admission.expect(Forecast(64))
    admission.check(84, 3600.0, is_live=True)
    admission.queue.observe(20, 3600.0)
    admission.check(84, 3600.1, is_live=True)


def test_who_goes_away_is_in_the_line_no_more() -> None:
    scheduler = Scheduler(1, cache=CacheShape(8, 4, 32))
    for name in ("speaks", "waits", "goes on waiting", "is offline"):
        words = Words(name, (1, 2, 3), 9)
        scheduler.add(EngineRequest(name, strict_prompt(words), is_live=name != "is offline"))
    scheduler.schedule()
    assert scheduler.admission.queue.num_queued == 2
    for name in ("speaks", "waits", "is offline"):
        scheduler.abort(name)
    assert scheduler.admission.queue.num_queued == 1


def test_a_line_that_stands_does_not_matter_if_any_wait_is_allowed() -> None:
    admission = AdmissionControl(64, AdmissionLimits(max_waiting=100, max_wait_s=inf))
    admission.expect(Forecast(64, tuple(0.01 * number for number in range(64))))
    stand(admission, num_in_line=20, rate_hz=0, until_s=3.0)
    admission.check(84, 3.0, is_live=True)


@given(st.floats(1e-3, 0.1), st.integers(1, 200))
def test_capacity_is_what_fits_into_a_frame(row_s: float, num_slots: int) -> None:
    costs = CostModel()
    assert live_capacity(costs, CODEC, num_slots, 0.85) == num_slots
    for _ in range(60):
        for rows in (1, 16, 256):
            costs.observe(StepShape(rows), row_s * (1 + rows / 16))
    capacity = live_capacity(costs, CODEC, num_slots, 0.85)
    assert 1 <= capacity <= num_slots
    if costs.rows_s(1) + costs.codec_s(1) > CODEC.frame_s:
        return
    if capacity > 1:
        assert costs.rows_s(capacity) <= 0.85 * CODEC.frame_s
    if capacity < num_slots:
        more_s = costs.rows_s(capacity + 1) + costs.codec_s(capacity + 1)
        assert more_s > 0.85 * CODEC.frame_s or capacity == 1


@pytest.mark.parametrize(("second_s", "capacity"), [(0.1, 1), (0.02, 8)])
def test_streams_slower_than_real_time_are_computed_together_if_that_is_sooner(
    second_s: float, capacity: int
) -> None:
    """A row of 0.1 s: the next one costs as much, or little."""
    costs = CostModel()
    for _ in range(60):
        for rows in (1, 2, 4, 8):
            costs.observe(StepShape(rows), 0.1 + second_s * (rows - 1))
    assert live_capacity(costs, CODEC, 8, 0.85) == capacity


def test_lengths_are_learned_and_never_beyond_the_limit() -> None:
    def request(num_tokens: int) -> EngineRequest:
        sampling = Sampling(max_frames=50)
        prompt = Prompt(data=None, num_tokens=num_tokens, seed=0, sampling=sampling)
        return EngineRequest("r", prompt)

    lengths = LengthEstimator()
    assert lengths.num_frames_left(request(10)) == 0
    for _ in range(5):
        lengths.observe(request(10).prompt, 30)
    assert lengths.num_frames_left(request(10)) == pytest.approx(30)
    assert lengths.num_frames_left(request(1000)) == 50
    running = request(10)
    running.frames = [0] * 45
    assert lengths.num_frames_left(running) > 0
