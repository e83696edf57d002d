"""Known times give known figures; what did not arrive whole counts as an error, not as speed."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_bench.load import HttpLoad
from antiphon_bench.playback import TOLERATED_S
from antiphon_bench.record import Outcome, Record, outcome_of
from antiphon_bench.summary import Percentiles, PlaybackSummary, steady_window, summarize


def record(index: int, sent_s: float, *, first_s: float = 0.25, outcome: Outcome = "ok") -> Record:
    """Return a request answered with two pieces of one second each, half a second apart."""
    return Record(
        index=index,
        due_s=sent_s,
        sent_s=sent_s,
        ended_s=sent_s + first_s + 0.5,
        outcome=outcome,
        status=200,
        num_characters=10,
        arrivals_s=(sent_s + first_s, sent_s + first_s + 0.5),
        durations_s=(1.0, 1.0),
        first_sound_s=sent_s + first_s + 0.125,
        num_tokens=25,
    )


def test_one_stream() -> None:
    load = HttpLoad(concurrency=1, num_requests=8)
    result = summarize(load, [record(index, index * 0.75) for index in range(8)])
    assert result.outcomes == {"ok": 8}
    assert result.wall_s == 6
    assert result.window_s == 5.0  # from the first audio to the last request
    assert result.audio_s_per_s == pytest.approx(2 / 0.75, rel=0.1)
    assert result.audio_s == 16
    assert result.num_tokens == 200
    assert result.first_audio_ms is not None
    assert result.first_audio_ms.p99 == pytest.approx(250)
    assert result.first_sound_ms is not None
    assert result.first_sound_ms.mean == pytest.approx(375)
    assert result.real_time_factor is not None
    assert result.real_time_factor.p50 == pytest.approx(0.375)
    assert result.playback is not None
    assert result.playback.continuity == 1
    assert result.mean_streams == pytest.approx(1)


def test_an_open_load_is_measured_as_a_whole_from_when_requests_were_due() -> None:
    late = replace(record(0, 1.0), due_s=0.0)
    result = summarize(HttpLoad(rate_hz=1, num_requests=1), [late])
    assert result.window_s == result.wall_s == 1.75
    assert result.first_audio_ms is not None
    assert result.first_audio_ms.p50 == pytest.approx(1250)
    assert result.late_ms is not None
    assert result.late_ms.max == pytest.approx(1000)
    assert result.audio_s_per_s == pytest.approx(2 / 1.75)


def test_a_stream_that_halts_is_not_continuous() -> None:
    halting = replace(record(0, 0.0), arrivals_s=(0.25, 1.75), ended_s=1.75)
    halts_briefly = replace(record(1, 0.0), arrivals_s=(0.25, 1.3125), ended_s=1.3125)
    load = HttpLoad(rate_hz=1, num_requests=3)
    playback = summarize(load, [halting, halts_briefly, record(2, 0.0)]).playback
    assert playback is not None
    assert playback.continuity == pytest.approx(1 / 3)
    assert playback.continuity_100ms == pytest.approx(2 / 3)
    assert playback.underrun_s == 0.5 + 0.0625
    assert playback.underrun_s_max == 0.5


def test_failures_are_counted_and_give_no_figures() -> None:
    refused = replace(
        record(0, 0.0, outcome="refused"), status=429, arrivals_s=(), durations_s=(), message="no"
    )
    broken = record(1, 0.0, outcome="broken")
    result = summarize(HttpLoad(concurrency=2, num_requests=2), [refused, broken])
    assert result.outcomes == {"refused": 1, "broken": 1}
    assert result.statuses == {"429": 1, "200": 1}
    assert result.errors == ("no",)
    assert result.first_audio_ms is None
    assert result.playback is None
    assert result.audio_s == 0
    assert set(asdict(result)) >= {"audio_s_per_s", "playback", "first_audio_ms"}


def test_responses_are_classified() -> None:
    cases: list[tuple[int, bool, Outcome]] = [
        (200, True, "ok"),
        (200, False, "broken"),
        (0, False, "broken"),
        (429, True, "refused"),
        (404, True, "rejected"),
        (500, True, "failed"),
        (503, False, "failed"),
    ]
    for status, is_complete, outcome in cases:
        assert outcome_of(status, is_complete=is_complete) == outcome


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_in_order_and_between_the_extremes(values: list[float]) -> None:
    found = Percentiles.of(values)
    assert found is not None
    shares = [found.p50, found.p90, found.p95, found.p99]
    assert shares == sorted(shares)
    assert min(values) <= found.p50
    assert found.p99 <= found.max == max(values)
    assert Percentiles.of([]) is None
    assert Percentiles.of(range(101)) == Percentiles(50, 90, 95, 99, 50, 100)


def test_throughput_is_measured_while_all_streams_are_busy_if_that_is_long_enough() -> None:
    load = HttpLoad(concurrency=2, num_requests=4)
    slow = [record(0, 0.0), record(1, 0.0, first_s=3.0), record(2, 3.5), record(3, 9.0)]
    assert steady_window(load, slow) == (3.0, 9.0)  # from the last stream's first audio
    short = [record(0, 0.0), record(1, 0.0, first_s=3.0), record(2, 3.5), record(3, 4.0)]
    assert steady_window(load, short) == (0.0, 4.75)
    few = [record(0, 0.0), record(1, 0.0)]
    assert steady_window(load, few) == (0.0, 0.75)


def test_halts_of_a_tenth_of_a_second_are_tolerated_in_one_of_two_figures() -> None:
    found = PlaybackSummary.of([0.0, TOLERATED_S, TOLERATED_S + 0.01])
    assert found is not None
    assert (found.continuity, found.continuity_100ms) == (1 / 3, 2 / 3)
