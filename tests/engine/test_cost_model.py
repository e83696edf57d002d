"""What is learned of steps: the measured time, more for more work, and sense before all that."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.engine.cost_model import CostModel, StepShape
from antiphon.engine.plan import CodecChunk, CodecReplay, Prefill, StepPlan

shapes = st.builds(
    StepShape,
    st.integers(0, 300),
    st.integers(0, 600),
    st.integers(0, 600),
)


@given(st.lists(st.tuples(shapes, st.floats(1e-5, 1.0)), max_size=40))
def test_more_work_never_takes_less_time(measured: list[tuple[StepShape, float]]) -> None:
    times = CostModel()
    for shape, seconds in measured:
        times.observe(shape, seconds)
    rows_s = [times.rows_s(rows) for rows in range(1, 400, 7)]
    assert rows_s == sorted(rows_s)
    assert rows_s[0] > 0
    codec_s = [times.codec_s(frames) for frames in range(1, 700, 9)]
    assert codec_s == sorted(codec_s)


@given(st.floats(1e-4, 0.5), st.integers(1, 256))
def test_the_same_step_again_and_again_is_learned(seconds: float, rows: int) -> None:
    times, shape = CostModel(), StepShape(rows)
    for _ in range(100):
        times.observe(shape, seconds)
    assert abs(times.step_s(shape) - seconds) < 0.01 * seconds
    assert times.is_trusted


def test_parts_of_a_step_are_separated_by_steps_that_lack_them() -> None:
    times = CostModel()
    for number in range(2000):
        shape = StepShape(32, 64 * (number % 3 == 0), 32 * (number % 2))
        seconds = 0.02 + 0.005 * (number % 3 == 0) + 0.003 * (number % 2)
        times.observe(shape, seconds)
    assert abs(times.rows_s(32) - 0.02) < 1e-3
    assert abs(times.codec_s(32) - 0.003) < 1e-3


def test_a_shape_is_what_a_plan_asks_for() -> None:
    plan = StepPlan(
        prefills=(Prefill(0, 0, 10), Prefill(1, 5, 6)),
        decode_slots=(2, 3),
        codec_chunks=(CodecChunk(2, 0, 4), CodecChunk(3, 8, 7), CodecChunk(4, 0, 1)),
        codec_replays=(CodecReplay(5, 3, 8),),
    )
    assert StepShape.of(plan) == StepShape(2, 11, 17)


def test_one_hiccup_does_not_change_what_is_expected_by_much() -> None:
    times, shape = CostModel(), StepShape(8)
    for _ in range(50):
        times.observe(shape, 0.01)
    times.observe(shape, 10.0)
    assert times.step_s(shape) < 0.02
    assert times.mean_step_s < 0.02


def test_what_was_slow_once_is_not_believed_when_less_work_is_quick_again() -> None:
    times = CostModel()
    for _ in range(100):
        times.observe(StepShape(32), 5e-3)
        times.observe(StepShape(64), 6e-3)
    for _ in range(100):
        times.observe(StepShape(64), 0.5)  # another process has the device
    for _ in range(100):
        times.observe(StepShape(32), 5e-3)  # all that is let in meanwhile
    assert times.rows_s(64) < 2.1 * times.rows_s(32)


@pytest.mark.parametrize("position_s", [1e-6, 150e-6])
def test_what_prompts_cost_is_learned_in_a_few_steps(position_s: float) -> None:
    times = CostModel()
    for _ in range(20):
        times.observe(StepShape(8), 4e-3)
    for _ in range(12):
        times.observe(StepShape(8, 500), 4e-3 + 500 * position_s)
    assert times.prefill_s(8, 500) == pytest.approx(500 * position_s, rel=0.2, abs=0.3e-3)
    assert times.rows_s(8) == pytest.approx(4e-3, rel=0.01), "it was no row that took so long"


def test_prompts_that_cost_nothing_do_not_make_long_ones_free() -> None:
    times, random = CostModel(), Random(1)
    for number in range(20_000):
        rows = random.randint(40, 64)
        positions = random.choice((0, 8, 16, 40))
        # With prompts a little less than it was learned without, for whatever reason.
        times.observe(StepShape(rows, positions, rows), (5.0 - 0.1 * (positions > 0)) * 1e-3)
        if number % 1000 == 999:
            assert times.positions_within(64, 0.05) < 20_000
    assert times.prefill_s(64, 40) < 0.5e-3
    assert times.prefill_s(64, 4096) > 2e-3


@given(st.integers(0, 256), st.floats(0, 0.1))
def test_positions_within_a_time_are_the_most_that_take_no_longer(rows: int, time_s: float) -> None:
    times = CostModel()
    most, least_s = times.positions_within(rows, time_s), 0.0 if rows else times.prefill_s(0, 1)
    assert not most or times.prefill_s(rows, most) <= time_s + least_s + 1e-9
    assert times.prefill_s(rows, most + 1) > time_s + least_s - 1e-9
