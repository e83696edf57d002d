"""Whether draws come from a distribution, by Pearson's test."""

import math

import numpy as np
from numpy.typing import NDArray

_MIN_EXPECTED = 5.0
_QUANTILE = 4.75  # of the normal distribution: one in a million beyond


def excess(counts: NDArray[np.int64], probabilities: NDArray[np.float64]) -> float:
    """Return the statistic, relative to what one test in a million exceeds by chance.

    Tokens that are expected fewer than five times are counted as one.
    """
    assert counts[probabilities == 0].sum() == 0, "drew what had been filtered out"
    expected = probabilities / probabilities.sum() * counts.sum()
    is_rare = expected < _MIN_EXPECTED
    groups = [counts[~is_rare], expected[~is_rare]]
    if expected[is_rare].sum() >= _MIN_EXPECTED:
        groups = [
            np.append(common, rare.sum())
            for common, rare in zip(groups, (counts[is_rare], expected[is_rare]), strict=True)
        ]
    statistic = float(((groups[0] - groups[1]) ** 2 / groups[1]).sum())
    freedom = len(groups[0]) - 1
    if freedom == 0:
        return statistic
    spread = 2 / (9 * freedom)  # Wilson and Hilferty's approximation
    return statistic / (freedom * (1 - spread + _QUANTILE * math.sqrt(spread)) ** 3)
