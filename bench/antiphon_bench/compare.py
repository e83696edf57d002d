"""Comparison of two reports of a suite: changes beyond chance.

A figure has changed if the interval of its ratio excludes no change, and the change is large enough
to matter. Shares and figures that may be zero are compared by their difference. Many figures are
compared, so the interval is wide: 99 % by default. Requests of a round are not independent; with
three or more rounds, whole rounds are resampled, and the result is more reliable.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from antiphon.errors import SettingsError
from antiphon_bench.bootstrap import Interval, Rounds, Statistic, change_intervals, statistic
from antiphon_bench.metrics import METRICS, rates_of, values_of
from antiphon_bench.record import Record
from antiphon_bench.suite import rounds_of

Verdict: TypeAlias = Literal["better", "worse", "same", "unknown"]
_DIFFERENCES = {"continuity", "underrun_s", "success"}
"""Figures compared by their difference, since they may be zero or have a bound."""
_SHARE_FLOOR = 0.01
_FEWEST_FOR_RATES = 5


@dataclass(frozen=True, slots=True)
class Change:
    """One figure of a cell, in two reports.

    Attributes:
        figure: name of the metric and its statistic, as ``"first_audio_ms p50"``.
        between: interval of ``after / before``, or of the difference where ``before`` may be zero;
            ``None``: there are too few requests, or none is needed.
        is_ratio: whether ``between`` is an interval of the ratio.
        verdict: whether it has changed.
    """

    cell: str
    figure: str
    before: float
    after: float
    between: Interval | None
    is_ratio: bool
    verdict: Verdict


def compare(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    confidence: float = 0.99,
    threshold: float = 0.05,
) -> list[Change]:
    """Return all figures of the cells that both reports have; raises SettingsError.

    Args:
        threshold: share of a figure by which it may change unnoticed.
    """
    old = {cell["cell"]: cell for cell in before["cells"]}
    new = {cell["cell"]: cell for cell in after["cells"]}
    common = [name for name in old if name in new]
    if not common:
        raise SettingsError("The reports have no cell in common.")
    found: list[Change] = []
    prebuffers_s = before.get("prebuffer_s", 0.0), after.get("prebuffer_s", 0.0)
    for name in common:
        rounds = rounds_of(old[name]), rounds_of(new[name])
        found += _new_errors(name, *rounds)
        for metric, values in _values(rounds, prebuffers_s).items():
            found += _changes(name, metric, values, confidence, threshold)
    return found


def _new_errors(
    cell: str, before: Sequence[Sequence[Record]], after: Sequence[Sequence[Record]]
) -> Iterator[Change]:
    """Yield a change if requests fail where none did: chance fails none of a sound server.

    Refusals are left to the share of success: how many there are is a matter of the load.
    """
    shares = []
    for rounds in (before, after):
        outcomes = [each.outcome for records in rounds for each in records]
        failed = [each for each in outcomes if each not in ("ok", "refused")]
        shares.append(len(failed) / max(1, len(outcomes)))
    if shares[1] and not shares[0]:
        yield Change(cell, "errors", shares[0], shares[1], None, False, "worse")


def _values(
    rounds: tuple[list[list[Record]], list[list[Record]]], prebuffers_s: tuple[float, float]
) -> dict[str, tuple[Rounds, Rounds]]:
    first, second = rounds
    found: dict[str, tuple[Rounds, Rounds]] = {
        name: (
            values_of(name, first, prebuffers_s[0]),
            values_of(name, second, prebuffers_s[1]),
        )
        for name, metric in METRICS.items()
        if metric.compared
    }
    found["success"] = _success(first), _success(second)
    rates = _rates(first), _rates(second)
    for name in ("audio_s_per_s", "requests_per_s"):
        found[name] = rates[0].get(name, []), rates[1].get(name, [])
    return found


def _rates(rounds: Sequence[Sequence[Record]]) -> dict[str, list[list[float]]]:
    """Return throughput in parts of the rounds.

    Of few requests, parts are empty or full by chance, so that only the mean is returned.
    """
    found = rates_of(rounds)
    num_whole = sum(each.outcome == "ok" for records in rounds for each in records)
    if num_whole >= _FEWEST_FOR_RATES:
        return found
    return {
        name: [[statistic([value for row in values for value in row], "mean")]]
        for name, values in found.items()
    }


def _success(rounds: Sequence[Sequence[Record]]) -> list[list[float]]:
    return [[float(each.outcome == "ok") for each in records] for records in rounds]


def _changes(
    cell: str,
    name: str,
    values: tuple[Rounds, Rounds],
    confidence: float,
    threshold: float,
) -> list[Change]:
    statistics: tuple[Statistic, ...] = METRICS[name].compared if name in METRICS else ("mean",)
    is_lower_better = name in METRICS and METRICS[name].better == "lower"
    floor = METRICS[name].floor if name in METRICS else 0.0
    found: list[Change] = []
    if not all(any(rounds) for rounds in values):
        return found
    is_relative = name not in _DIFFERENCES
    ratios: dict[Statistic, Interval] = {}
    if is_relative:
        ratios = change_intervals(*values, statistics, is_ratio=True, confidence=confidence)
    by_difference = [each for each in statistics if each not in ratios]
    apart = change_intervals(*values, by_difference, is_ratio=False, confidence=confidence)
    for each in statistics:
        old, new = (statistic([v for row in rounds for v in row], each) for rounds in values)
        between, is_ratio = ratios.get(each, apart.get(each)), each in ratios
        verdict: Verdict = "unknown"
        if between is not None:
            unchanged = 1.0 if is_ratio else 0.0
            is_sure = not between.low <= unchanged <= between.high
            least = threshold * abs(old) if is_relative else _SHARE_FLOOR
            is_noticed = abs(new - old) > max(floor, least)
            is_better = (new < old) == is_lower_better
            verdict = "same" if not (is_sure and is_noticed) else "better" if is_better else "worse"
        found.append(Change(cell, f"{name} {each}", old, new, between, is_ratio, verdict))
    return found
