"""The host's times are those of the steps between two states, in milliseconds."""

import pytest

from antiphon.telemetry.stage_status import EngineStats, Histogram
from antiphon_bench.host import host_times, quantile


def test_only_what_was_counted_in_between_is_told() -> None:
    stats = EngineStats()
    stats.record_host(launch=1.0, gap=0.0)
    before = stats.snapshot().host_seconds
    for _ in range(99):
        stats.record_host(launch=0.2e-3)
    stats.record_host(launch=0.4e-3)
    times = host_times(before, stats.host_seconds)
    assert set(times) == {"launch"}
    launch = times["launch"]
    assert launch.num_steps == 100
    assert launch.mean_ms == pytest.approx(0.202)
    assert 0.15 < launch.p50_ms <= launch.p99_ms <= 0.2


def test_a_quantile_is_at_most_a_bucket_off() -> None:
    histogram = Histogram((1, 2, 4))
    assert quantile(histogram, 0.5) is None
    for value in (0.5, 1, 3, 4):
        histogram.observe(value)
    assert (quantile(histogram, 0.25), quantile(histogram, 0.5)) == (0.5, 1)
    assert (quantile(histogram, 0.75), quantile(histogram, 1.0)) == (3, 4)
    histogram.observe(9)
    assert quantile(histogram, 1.0) == 4, "the last bucket has no bound"
