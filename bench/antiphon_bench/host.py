"""Host time of an engine per step, from the statistics that the engine publishes."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from antiphon.pipeline.runtime import LoadedTask
from antiphon.telemetry.engine_stats import EngineStats, Histogram

_SETTLE_S = 0.05  # an engine publishes its statistics as soon as it has nothing to do


@dataclass(frozen=True, slots=True)
class HostTime:
    """Distribution of a host time over steps, with the resolution of the statistics' buckets.

    Attributes:
        num_steps: number of steps.
        mean_ms: mean over the steps.
        p50_ms: median over the steps.
        p99_ms: 99th percentile over the steps.
    """

    num_steps: int
    mean_ms: float
    p50_ms: float
    p99_ms: float

    @classmethod
    def of(cls, histogram: Histogram) -> "HostTime | None":
        """Return that of counted seconds, or ``None`` of none."""
        p50_s, p99_s = histogram.quantile(0.5), histogram.quantile(0.99)
        if p50_s is None or p99_s is None:
            return None
        num_steps = sum(histogram.counts)
        return cls(num_steps, histogram.total / num_steps * 1000, p50_s * 1000, p99_s * 1000)


async def host_seconds(model: LoadedTask) -> dict[str, Histogram]:
    """Return the time of the host by what it does, of all steps so far of a model that is idle."""
    await asyncio.sleep(_SETTLE_S)
    found = [stats for _, _, stats in model.engine_stats()]
    return EngineStats.summed(found or [EngineStats()]).host_seconds


def host_times(
    before: Mapping[str, Histogram], after: Mapping[str, Histogram]
) -> dict[str, HostTime]:
    """Return the times between two states of the statistics, of what was done at all."""
    times = {kind: HostTime.of(each.since(before[kind])) for kind, each in after.items()}
    return {kind: each for kind, each in times.items() if each is not None}
