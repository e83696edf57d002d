"""Bootstrap confidence intervals of measured figures.

Values are resampled with replacement, and the figure is computed of each sample. Values of one load
are not independent (one slow step delays all streams), so intervals are, if anything, too narrow.
Where a load was measured in several rounds, whole rounds are drawn first to include their variance.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Statistic: TypeAlias = Literal["mean", "p50", "p90", "p95", "p99"]
Rounds: TypeAlias = Sequence[Sequence[float]]
"""Values by the round in which they were measured."""
NUM_DRAWS = 1000
_MOST_AT_ONCE = 2_000_000
FEWEST_VALUES: dict[Statistic, int] = {"mean": 2, "p50": 5, "p90": 10, "p95": 20, "p99": 100}
"""Fewest values of which each statistic is reported with an interval."""


@dataclass(frozen=True, slots=True)
class Interval:
    """Interval in which a figure lies in ``confidence`` of all draws."""

    low: float
    high: float


def statistic(values: Sequence[float], name: Statistic) -> float:
    """Return a figure of at least one value; percentiles are interpolated."""
    array = np.asarray(values, np.float64)
    return float(array.mean() if name == "mean" else np.percentile(array, int(name[1:])))


def intervals(
    rounds: Rounds, names: Sequence[Statistic], *, confidence: float = 0.95, seed: int = 0
) -> dict[Statistic, Interval]:
    """Return where figures lie, of those for which there are enough values."""
    num_values = sum(map(len, rounds))
    enough = [name for name in names if num_values >= FEWEST_VALUES[name]]
    drawn = draws(rounds, enough, seed)
    return {name: _between(values, confidence) for name, values in drawn.items()}


def change_intervals(
    before: Rounds,
    after: Rounds,
    names: Sequence[Statistic],
    *,
    is_ratio: bool,
    confidence: float,
    seed: int = 0,
) -> dict[Statistic, Interval]:
    """Return where the ratio of figures, after to before, or their difference lies.

    Figures of too few values, and ratios to what may be zero, are left out.
    """
    num_values = min(sum(map(len, each)) for each in (before, after))
    enough = [name for name in names if num_values >= FEWEST_VALUES[name]]
    first, second = draws(before, enough, seed), draws(after, enough, seed + 1)
    return {
        name: _between(
            second[name] / first[name] if is_ratio else second[name] - first[name], confidence
        )
        for name in enough
        if not is_ratio or (first[name] > 0).all()
    }


def draws(
    rounds: Rounds, names: Sequence[Statistic], seed: int
) -> dict[Statistic, NDArray[np.float64]]:
    """Return figures of each of `NUM_DRAWS` draws.

    Of several rounds, as many are drawn as there are, and from each the mean number of values.
    """
    random = np.random.default_rng(seed)
    arrays = [np.asarray(values, np.float64) for values in rounds if len(values)]
    found: dict[Statistic, list[NDArray[np.float64]]] = {name: [] for name in names}
    if not names or not arrays:
        return {}
    sizes = np.array([len(each) for each in arrays])
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    everything = np.concatenate(arrays)
    size = max(1, round(float(sizes.mean())))
    at_once = max(1, _MOST_AT_ONCE // (size * len(arrays)))
    for begin in range(0, NUM_DRAWS, at_once):
        num_draws = min(at_once, NUM_DRAWS - begin)
        chosen = random.integers(len(arrays), size=(num_draws, len(arrays), 1))
        within = random.random((num_draws, len(arrays), size)) * sizes[chosen]
        drawn = everything[starts[chosen] + within.astype(np.int64)].reshape(num_draws, -1)
        for name in names:
            is_mean = name == "mean"
            found[name].append(
                drawn.mean(axis=1) if is_mean else np.percentile(drawn, int(name[1:]), axis=1)
            )
    return {name: np.concatenate(each) for name, each in found.items()}


def _between(values: NDArray[np.float64], confidence: float) -> Interval:
    outside = (1 - confidence) / 2 * 100
    low, high = np.percentile(values, [outside, 100 - outside])
    return Interval(float(low), float(high))
