"""Known timestamps give known figures, intervals that hold them, and vLLM-Omni's names for them."""

from dataclasses import replace

import pytest

from antiphon_bench.bootstrap import Interval, Statistic, change_intervals, intervals, statistic
from antiphon_bench.metrics import METRICS, figures, throughput, values_of
from antiphon_bench.omni_names import omni_figures
from antiphon_bench.playback import halts_s, underrun_s
from antiphon_bench.record import Record

BASE = Record(
    index=0,
    due_s=10.0,
    sent_s=10.01,
    ended_s=11.5,
    outcome="ok",
    status=200,
    num_characters=10,
    first_byte_s=10.08,
    arrivals_s=(10.1, 10.3, 11.45),
    durations_s=(0.5, 0.5, 1.0),
    first_sound_s=10.15,
    num_tokens=24,
)
"""Two seconds of audio; 0.35 s of them late, since 1.1 s were to be played from 10.1 s on."""


def only(name: str, record: Record = BASE, prebuffer_s: float = 0.0) -> list[float]:
    (values,) = values_of(name, [[record]], prebuffer_s)
    return values


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("first_byte_ms", [80]),
        ("first_audio_ms", [100]),
        ("first_sound_ms", [150]),
        ("chunk_gap_ms", [200, 1150]),
        ("latency_ms", [1500]),
        ("real_time_factor", [0.75]),
        ("underrun_s", [0.35]),
        ("halts", [1]),
        ("continuity", [0]),
        ("continuity_100ms", [0]),
        ("audio_s", [2]),
    ],
)
def test_every_figure_of_known_times(name: str, expected: list[float]) -> None:
    assert only(name) == pytest.approx(expected)


def test_every_figure_has_a_known_answer_here() -> None:
    (mark,) = test_every_figure_of_known_times.pytestmark  # type: ignore[attr-defined]
    assert {name for name, _ in mark.args[1]} == set(METRICS)


def test_a_prebuffer_hides_a_halt_that_is_shorter() -> None:
    assert only("continuity", prebuffer_s=1.0) == [0]
    late = replace(BASE, arrivals_s=(10.1, 10.3, 11.25))
    assert only("continuity", late, prebuffer_s=0.6) == [1]
    assert only("underrun_s", late) == pytest.approx([0.15])
    brief = replace(BASE, arrivals_s=(10.1, 10.3, 11.15))
    assert only("continuity", brief) == [0]
    assert only("continuity_100ms", brief) == [1]


def test_halts_are_told_one_by_one() -> None:
    arrivals_s, durations_s = (0.0, 2.0, 2.5, 6.0), (1.0, 1.0, 1.0, 1.0)
    assert halts_s(arrivals_s, durations_s) == pytest.approx([1.0, 2.0])
    assert underrun_s(arrivals_s, durations_s) == pytest.approx(3.0)
    assert halts_s((), ()) == []


def test_what_did_not_arrive_is_no_figure() -> None:
    assert figures([[replace(BASE, outcome="broken")]]) == {}
    silent = replace(BASE, first_sound_s=None)
    assert "first_sound_ms" not in figures([[silent]])


def test_throughput_is_what_arrived_a_second() -> None:
    one = replace(BASE, due_s=10.0, ended_s=12.0)
    rates = throughput([[one]])
    assert rates["audio_s_per_s"]["mean"] == pytest.approx(1.0)
    assert rates["requests_per_s"]["mean"] == pytest.approx(0.5)
    assert rates["frames_per_s"]["mean"] == pytest.approx(12)
    assert throughput([[one]], frame_rate_hz=50)["frames_per_s"]["mean"] == pytest.approx(50)
    assert "frames_per_s" not in throughput([[replace(one, num_tokens=None)]])


def test_omni_names_count_from_sending_and_forgive_100_ms() -> None:
    second = replace(BASE, arrivals_s=(10.2, 10.3, 10.4), ended_s=10.51)
    found = omni_figures([[BASE, second]])
    assert found["mean_audio_ttfp_ms"] == pytest.approx((90 + 190) / 2)
    assert found["median_e2el_ms"] == pytest.approx((1490 + 500) / 2)
    assert found["p99_audio_rtf"] == pytest.approx(0.745 - 0.01 * (0.745 - 0.25))
    assert found["audio_continuity_ok_rate"] == 0.5
    assert found["mean_audio_underrun_s"] == pytest.approx(0.175)
    assert found["total_audio_duration_s"] == 4
    assert found["duration"] == pytest.approx(1.49)
    assert found["audio_throughput"] == pytest.approx(4 / 1.49)
    assert found["request_throughput"] == pytest.approx(2 / 1.49)
    assert omni_figures([[replace(BASE, outcome="failed")]])["failed"] == 1


def test_percentiles_are_interpolated() -> None:
    values = [float(value) for value in range(101)]
    assert statistic(values, "p50") == 50
    assert statistic(values, "p99") == 99
    assert statistic(values, "mean") == 50


def interval(rounds: list[list[float]], name: Statistic) -> Interval | None:
    return intervals(rounds, (name,)).get(name)


def test_intervals_hold_the_figure_and_narrow_with_more_values() -> None:
    few = [float(value % 10) for value in range(20)]
    wide, narrow = interval([few], "mean"), interval([few * 25], "mean")
    assert wide is not None
    assert narrow is not None
    assert wide.low < 4.5 < wide.high
    assert wide.low < narrow.low < 4.5 < narrow.high < wide.high
    # The standard error of a mean: 2.87 / sqrt(500), twice to either side.
    assert narrow.high - narrow.low == pytest.approx(4 * 2.87 / 500**0.5, rel=0.15)
    assert interval([few], "p99") is None, "too few to say"


def test_rounds_that_differ_widen_an_interval() -> None:
    alike = interval([[1.0, 3.0] * 10, [1.0, 3.0] * 10, [1.0, 3.0] * 10], "mean")
    apart = interval([[1.0] * 20, [2.0] * 20, [3.0] * 20], "mean")
    assert alike is not None
    assert apart is not None
    assert apart.high - apart.low > 1.5 * (alike.high - alike.low)


def test_a_ratio_is_after_over_before() -> None:
    before, after = [1.0, 1.1, 0.9] * 10, [2.0, 2.2, 1.8] * 10

    def ratios(first: list[float]) -> dict[Statistic, Interval]:
        return change_intervals([first], [after], ("p50",), is_ratio=True, confidence=0.99)

    found = ratios(before)["p50"]
    assert 1.7 < found.low <= 2.0 <= found.high < 2.3
    assert ratios([0.0] * 9) == {}, "no ratio to zero"
