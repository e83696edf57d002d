"""The figures of a suite, each a number a request, and what is reported and compared of them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from antiphon_bench.bootstrap import Rounds, Statistic, intervals, statistic
from antiphon_bench.playback import TOLERATED_S, halts_s
from antiphon_bench.record import Record

_BLOCKS = 10


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure.

    Attributes:
        better: direction of an improvement.
        statistics: reported statistics; charts show the first one.
        compared: statistics that comparisons use.
        floor: smallest difference that matters, in the figure's unit.
        of: the values of one request; none where the request has no such figure.
    """

    title: str
    better: Literal["lower", "higher"]
    statistics: tuple[Statistic, ...]
    compared: tuple[Statistic, ...]
    floor: float
    of: Callable[[Record, float], Iterable[float]]


def _ms(since_s: float, at_s: float | None) -> list[float]:
    return [] if at_s is None else [(at_s - since_s) * 1000]


def _first_audio(record: Record, prebuffer_s: float) -> list[float]:
    return _ms(record.due_s, record.arrivals_s[0] if record.arrivals_s else None)


def _gaps(record: Record, prebuffer_s: float) -> list[float]:
    return [(after - before) * 1000 for before, after in pairwise(record.arrivals_s)]


def _rtf(record: Record, prebuffer_s: float) -> list[float]:
    return [(record.ended_s - record.due_s) / record.audio_s] if record.audio_s else []


def _halts(record: Record, prebuffer_s: float) -> list[float]:
    return halts_s(record.arrivals_s, record.durations_s, prebuffer_s)


_SPREAD: tuple[Statistic, ...] = ("p50", "p90", "p95", "p99", "mean")
METRICS: dict[str, Metric] = {
    "first_byte_ms": Metric(
        *("time to first byte, ms", "lower", _SPREAD, (), 1.0),
        lambda record, _: _ms(record.due_s, record.first_byte_s),
    ),
    "first_audio_ms": Metric(
        "time to first audio, ms", "lower", _SPREAD, ("p50", "p95"), 1.0, _first_audio
    ),
    "first_sound_ms": Metric(
        *("time to first audible sound, ms", "lower", _SPREAD, ("p50", "p95"), 1.0),
        lambda record, _: _ms(record.due_s, record.first_sound_s),
    ),
    "chunk_gap_ms": Metric(
        "between two pieces of audio, ms", "lower", _SPREAD, ("p99",), 1.0, _gaps
    ),
    "latency_ms": Metric(
        *("from request to end, ms", "lower", _SPREAD, ("p50", "p95"), 2.0),
        lambda record, _: _ms(record.due_s, record.ended_s),
    ),
    "real_time_factor": Metric("RTF", "lower", _SPREAD, ("p50",), 0.002, _rtf),
    "underrun_s": Metric(
        *("silence while playing, s", "lower", ("mean", "p95", "p99"), ("mean",), 0.01),
        lambda record, prebuffer_s: [sum(_halts(record, prebuffer_s))],
    ),
    "halts": Metric(
        *("halts while playing", "lower", ("mean", "p99"), (), 0.05),
        lambda record, prebuffer_s: [float(len(_halts(record, prebuffer_s)))],
    ),
    "continuity": Metric(
        *("share of streams without a halt", "higher", ("mean",), ("mean",), 0.01),
        lambda record, prebuffer_s: [float(not _halts(record, prebuffer_s))],
    ),
    "continuity_100ms": Metric(
        *("share whose halts are 100 ms at most", "higher", ("mean",), (), 0.01),
        lambda record, prebuffer_s: [float(sum(_halts(record, prebuffer_s)) <= TOLERATED_S)],
    ),
    "audio_s": Metric(
        "audio of an answer, s",
        "higher",
        ("p50", "mean"),
        (),
        0.0,
        lambda record, _: [record.audio_s],
    ),
}


def values_of(
    name: str, rounds: Sequence[Sequence[Record]], prebuffer_s: float = 0.0
) -> list[list[float]]:
    """Return the values of a figure by round, of answers that arrived whole."""
    metric = METRICS[name]
    return [
        [value for record in records if record.is_whole for value in metric.of(record, prebuffer_s)]
        for records in rounds
    ]


def figures(
    rounds: Sequence[Sequence[Record]], prebuffer_s: float = 0.0, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Return all figures for JSON: each statistic with its interval, where there is enough."""
    found: dict[str, dict[str, Any]] = {}
    for name, metric in METRICS.items():
        values = values_of(name, rounds, prebuffer_s)
        if any(values):
            found[name] = _spread(values, metric.statistics, seed)
    return found


def _spread(rounds: Rounds, names: Sequence[Statistic], seed: int) -> dict[str, Any]:
    everything = [value for values in rounds for value in values]
    spread: dict[str, Any] = {"count": len(everything)}
    between = intervals(rounds, names, seed=seed)
    for name in names:
        spread[name] = statistic(everything, name)
        if name in between:
            spread[f"{name}_ci95"] = [between[name].low, between[name].high]
    return spread | {"min": min(everything), "max": max(everything)}


def rates_of(
    rounds: Sequence[Sequence[Record]], frame_rate_hz: float | None = None
) -> dict[str, list[list[float]]]:
    """Return throughput by round, in each of ten equal parts of it, per second of wall time.

    ``audio_s_per_s``: received audio; ``requests_per_s``: complete answers; ``frames_per_s``:
    frames of the model, from ``frame_rate_hz`` or else as reported by the server.
    """
    found: dict[str, list[list[float]]] = {}
    for records in rounds:
        if not records:
            continue
        from_s = min(record.due_s for record in records)
        to_s = max(record.ended_s for record in records)
        block_s = max(to_s - from_s, 1e-9) / _BLOCKS
        audio, requests, frames = ([0.0] * _BLOCKS for _ in range(3))

        def block(at_s: float, from_s: float = from_s, block_s: float = block_s) -> int:
            return min(_BLOCKS - 1, max(0, int((at_s - from_s) / block_s)))

        for record in records:
            if record.outcome != "ok" or not record.audio_s:
                continue
            requests[block(record.ended_s)] += 1 / block_s
            per_audio = frame_rate_hz or (record.num_tokens or 0) / record.audio_s
            for at_s, audio_s in zip(record.arrivals_s, record.durations_s, strict=True):
                audio[block(at_s)] += audio_s / block_s
                frames[block(at_s)] += audio_s * per_audio / block_s
        for name, values in (
            ("audio_s_per_s", audio),
            ("requests_per_s", requests),
            ("frames_per_s", frames),
        ):
            if any(values):
                found.setdefault(name, []).append(values)
    return found


def throughput(
    rounds: Sequence[Sequence[Record]], frame_rate_hz: float | None = None, seed: int = 0
) -> dict[str, dict[str, Any]]:
    """Return the rates for JSON, each with its interval over the parts of all rounds."""
    return {
        name: _spread(values, ("mean",), seed)
        for name, values in rates_of(rounds, frame_rate_hz).items()
    }
