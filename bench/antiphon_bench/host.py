"""Host time of an engine per step, from the statistics that the engine publishes."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from antiphon.pipeline.runtime import LoadedTask
from antiphon.telemetry.stage_status import EngineStats, Histogram

_SETTLE_S = 0.05  # an engine publishes its statistics as soon as it has nothing to do


@dataclass(frozen=True, slots=True)
class HostTime:
    """Distribution of a host time over steps, with the resolution of the statistics' buckets."""

    num_steps: int
    mean_ms: float
    p50_ms: float
    p99_ms: float


async def host_seconds(model: LoadedTask) -> dict[str, Histogram]:
    """Return the time of the host by what it does, of all steps so far of a model that is idle."""
    await asyncio.sleep(_SETTLE_S)
    found = [stats for _, _, stats in model.engine_stats()]
    return EngineStats.summed(found or [EngineStats()]).host_seconds


def host_times(
    before: Mapping[str, Histogram], after: Mapping[str, Histogram]
) -> dict[str, HostTime]:
    """Return the times between two states of the statistics, of what was done at all."""
    times = {kind: _time(before[kind], each) for kind, each in after.items()}
    return {kind: each for kind, each in times.items() if each is not None}


def _time(before: Histogram, after: Histogram) -> HostTime | None:
    later = Histogram(after.bounds)
    later.counts = [now - then for now, then in zip(after.counts, before.counts, strict=True)]
    p50_s, p99_s = quantile(later, 0.5), quantile(later, 0.99)
    if p50_s is None or p99_s is None:
        return None
    num_steps = sum(later.counts)
    mean_ms = (after.total - before.total) / num_steps * 1000
    return HostTime(num_steps, mean_ms, p50_s * 1000, p99_s * 1000)


def quantile(histogram: Histogram, share: float) -> float | None:
    """Return what ``share`` of the values do not exceed, by straight lines within buckets.

    What is in the last bucket counts as the largest bound; ``None``: there are no values.
    """
    bounds, wanted, below = histogram.bounds, share * sum(histogram.counts), 0
    for index, count in enumerate(histogram.counts):
        if count and below + count >= wanted:
            if index == len(bounds):
                return bounds[-1]
            low = bounds[index - 1] if index else 0.0
            return low + (bounds[index] - low) * max(wanted - below, 0.0) / count
        below += count
    return None
