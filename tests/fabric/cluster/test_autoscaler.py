"""The autoscaler stays between its bounds, settles, and goes down only when fewer have sufficed."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.fabric.base import Placement
from antiphon.fabric.cluster.autoscaler import Autoscaler, AutoscalerLimits
from antiphon.telemetry.stage_status import StageStatus

LIMITS = AutoscalerLimits(min_replicas=1, max_replicas=8, up_cooldown_s=10.0, down_window_s=60.0)
CAPACITY = 10


def shared(num_open: int, num_replicas: int, capacity: int = CAPACITY) -> list[StageStatus]:
    """Return the statuses of replicas over which requests are spread evenly."""
    each, more = divmod(num_open, num_replicas)
    return [
        StageStatus(num_open=each + (number < more), capacity=capacity)
        for number in range(num_replicas)
    ]


def played(scaler: Autoscaler, loads: list[int], num_replicas: int, step_s: float) -> list[int]:
    """Return the numbers of replicas while so many requests are open, one entry a step."""
    numbers = []
    for step, num_open in enumerate(loads):
        now_s = step * step_s
        num_replicas = scaler.wanted(shared(num_open, num_replicas), num_replicas, now_s)
        numbers.append(num_replicas)
    return numbers


@given(
    loads=st.lists(st.integers(0, 500), min_size=1, max_size=60),
    low=st.integers(1, 5),
    more=st.integers(0, 5),
    start=st.integers(1, 20),
)
def test_the_number_stays_between_the_bounds(
    loads: list[int], low: int, more: int, start: int
) -> None:
    limits = AutoscalerLimits(min_replicas=low, max_replicas=low + more)
    numbers = played(Autoscaler(limits, now_s=0.0), loads, start, 5.0)
    assert all(low <= number <= low + more for number in numbers)


@given(num_open=st.integers(0, 200), start=st.integers(1, 8))
def test_under_a_constant_load_it_settles_where_the_load_fits(num_open: int, start: int) -> None:
    numbers = played(Autoscaler(LIMITS, now_s=0.0), [num_open] * 100, start, 5.0)
    assert len(set(numbers[20:])) == 1, "a window and a cool-down are over"
    load = num_open / (CAPACITY * numbers[-1])
    assert numbers[-1] == 8 or load <= LIMITS.target_load * (1 + LIMITS.tolerance) + 1e-9
    if numbers[-1] > 1:  # and one replica less would have been too few
        fewer = num_open / (CAPACITY * (numbers[-1] - 1))
        assert fewer >= LIMITS.target_load * (1 - LIMITS.tolerance) - 1e-9


@given(loads=st.lists(st.integers(0, 100), min_size=2, max_size=80))
def test_it_goes_down_only_after_a_window_in_which_fewer_would_have_done(loads: list[int]) -> None:
    numbers = played(Autoscaler(LIMITS, now_s=0.0), loads, 8, 5.0)
    for step in range(1, len(numbers)):
        if numbers[step] < numbers[step - 1]:
            assert step * 5.0 >= LIMITS.down_window_s
            window = loads[max(0, step - 12) : step + 1]
            fewest = max(math.ceil(num_open / (CAPACITY * 0.7)) for num_open in window)
            # what lies within the tolerance counts as enough
            assert numbers[step] >= min(8, math.floor(fewest / (1 + LIMITS.tolerance)))


def test_it_goes_up_at_once_and_again_only_after_the_cool_down() -> None:
    scaler = Autoscaler(LIMITS, now_s=0.0)
    assert scaler.wanted(shared(14, 1), 1, 0.0) == 2
    assert scaler.wanted(shared(60, 2), 2, 5.0) == 2
    assert scaler.wanted(shared(60, 2), 2, 10.0) == 8


def test_replicas_that_are_being_loaded_count() -> None:
    scaler = Autoscaler(LIMITS, now_s=0.0)
    assert scaler.wanted(shared(20, 1), 3, 0.0) == 3, "one serves, two are on their way"


def test_without_statuses_nothing_changes() -> None:
    scaler = Autoscaler(LIMITS, now_s=0.0)
    assert scaler.wanted([], 4, 0.0) == 4
    assert scaler.wanted([StageStatus(num_open=50)], 4, 1000.0) == 4


def test_a_placement_has_limits_if_it_leaves_a_choice() -> None:
    assert AutoscalerLimits.of(Placement(num_replicas=3)) is None
    assert AutoscalerLimits.of(Placement(min_replicas=2, max_replicas=2)) is None
    limits = AutoscalerLimits.of(Placement(min_replicas=2, max_replicas=5))
    assert limits == AutoscalerLimits(min_replicas=2, max_replicas=5)


@pytest.mark.parametrize(
    "wrong",
    [{"min_replicas": 0}, {"max_replicas": 1, "min_replicas": 2}, {"target_load": 0.0}],
)
def test_impossible_limits_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=r"replicas|target_load"):
        AutoscalerLimits(**{"min_replicas": 1, "max_replicas": 4, **wrong})  # type: ignore[arg-type]
