"""The host's times are those of the steps between two states, in milliseconds."""

import pytest

from antiphon.telemetry.engine_stats import EngineStats
from antiphon_bench.host import host_times


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
