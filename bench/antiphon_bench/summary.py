"""Turns what clients and streams saw into the figures that are reported."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from antiphon_bench.load import HttpLoad
from antiphon_bench.metrics import values_of
from antiphon_bench.playback import TOLERATED_S, underrun_s
from antiphon_bench.record import Record


@dataclass(frozen=True, slots=True)
class Percentiles:
    """Percentiles of values, by linear interpolation between the nearest two."""

    p50: float
    p90: float
    p95: float
    p99: float
    mean: float
    max: float

    @classmethod
    def of(cls, values: Iterable[float]) -> "Percentiles | None":
        """Return those of any number of values, or ``None`` of none."""
        ordered = sorted(values)
        if not ordered:
            return None
        p50, p90, p95, p99 = map(float, np.percentile(ordered, (50, 90, 95, 99)))
        return cls(p50, p90, p95, p99, mean=sum(ordered) / len(ordered), max=ordered[-1])

    @classmethod
    def ms_of(cls, values_s: Iterable[float]) -> "Percentiles | None":
        """Return those of durations, in milliseconds."""
        return cls.of(value_s * 1000 for value_s in values_s)


@dataclass(frozen=True, slots=True)
class PlaybackSummary:
    """Playback of streams that begins with the first audio (or after the prebuffer).

    Attributes:
        continuity: share of streams that never halt.
        continuity_100ms: share of streams whose halts are 100 ms together at most.
    """

    continuity: float
    continuity_100ms: float
    underrun_s: float
    underrun_s_max: float

    @classmethod
    def of(cls, halts_s: Sequence[float]) -> "PlaybackSummary | None":
        """Summarize each stream's seconds of silence; ``None`` if there is no stream."""
        if not halts_s:
            return None
        num_streams = len(halts_s)
        return cls(
            continuity=sum(halt_s == 0 for halt_s in halts_s) / num_streams,
            continuity_100ms=sum(halt_s <= TOLERATED_S for halt_s in halts_s) / num_streams,
            underrun_s=sum(halts_s),
            underrun_s_max=max(halts_s),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResult:
    """Result of a load. Latencies count from due times; only complete streams count.

    Attributes:
        concurrency: streams of a closed load, 0 of an open one.
        rate_hz: requests a second of an open load, 0 of a closed one.
        outcomes: requests by what became of them, see `antiphon_bench.record.Outcome`.
        wall_s: time from the first request to the last response.
        window_s: length of the window in which throughput is measured: all streams are busy.
        audio_s: audio of all streams.
        audio_s_per_s: audio of complete streams that arrived within the window, per second.
        requests_per_s: responses that ended within the window, per second.
        characters_per_s: characters of the texts of those responses, per second.
        num_tokens: number of generated frames, if the server reports them.
        first_audio_ms: time to the first byte of audio.
        first_sound_ms: time until playback reaches the first non-silent sample.
        real_time_factor: time from request to end, over the audio's duration.
        latency_ms: time from request to end.
        chunk_gap_ms: time between two pieces of a stream.
        playback: underruns of all streams.
        mean_streams: mean number of open streams over the window.
        late_ms: delay of requests past their due times.
        client_cpu_share: share of one core that the busiest client process used.
        errors: the first few messages.
    """

    concurrency: int
    rate_hz: float
    outcomes: dict[str, int]
    statuses: dict[str, int]
    wall_s: float
    window_s: float
    audio_s: float
    audio_s_per_s: float
    requests_per_s: float
    characters_per_s: float
    num_tokens: int
    first_audio_ms: Percentiles | None
    first_sound_ms: Percentiles | None
    real_time_factor: Percentiles | None
    latency_ms: Percentiles | None
    chunk_gap_ms: Percentiles | None
    playback: PlaybackSummary | None
    mean_streams: float
    late_ms: Percentiles | None
    client_cpu_share: float
    errors: tuple[str, ...]


def summarize(
    load: HttpLoad,
    records: Sequence[Record],
    *,
    prebuffer_s: float = 0.0,
    client_cpu_share: float = 0.0,
) -> HttpResult:
    """Return the figures of one load, of at least one request."""
    whole = [each for each in records if each.is_whole]
    window = steady_window(load, records)
    from_s, to_s = window
    window_s = to_s - from_s
    ended = [each for each in whole if from_s <= each.ended_s <= to_s]
    halts_s = [underrun_s(each.arrivals_s, each.durations_s, prebuffer_s) for each in whole]

    def spread(name: str) -> Percentiles | None:
        return Percentiles.of(values_of(name, [records])[0])

    return HttpResult(
        concurrency=load.concurrency,
        rate_hz=load.rate_hz,
        outcomes=dict(Counter(each.outcome for each in records)),
        statuses=dict(Counter(str(each.status) for each in records)),
        wall_s=max(each.ended_s for each in records) - min(each.due_s for each in records),
        window_s=window_s,
        audio_s=sum(each.audio_s for each in whole),
        audio_s_per_s=_audio_within(whole, window) / window_s,
        requests_per_s=len(ended) / window_s,
        characters_per_s=sum(each.num_characters for each in ended) / window_s,
        num_tokens=sum(each.num_tokens or 0 for each in whole),
        first_audio_ms=spread("first_audio_ms"),
        first_sound_ms=spread("first_sound_ms"),
        real_time_factor=spread("real_time_factor"),
        latency_ms=spread("latency_ms"),
        chunk_gap_ms=spread("chunk_gap_ms"),
        playback=PlaybackSummary.of(halts_s),
        mean_streams=sum(_overlap(each, window) for each in records) / window_s,
        late_ms=Percentiles.ms_of(each.sent_s - each.due_s for each in records),
        client_cpu_share=client_cpu_share,
        errors=tuple(sorted({each.message for each in records if each.message}))[:5],
    )


def steady_window(load: HttpLoad, records: Sequence[Record]) -> tuple[float, float]:
    """Return from when to when throughput is measured.

    Of a closed load, from the last of its streams' first audio to the last request: all streams
    are busy. If that is less than half of the whole (few requests), and of an open load, it is the
    whole: from the first request to the last response.
    """
    first_s = min(each.due_s for each in records)
    last_s = max(each.ended_s for each in records)
    if not load.is_open:
        begun = sorted(each.arrivals_s[0] for each in records if each.arrivals_s)
        from_s = begun[: load.concurrency][-1] if begun else last_s
        to_s = max(each.sent_s for each in records)
        if to_s - from_s >= (last_s - first_s) / 2:
            return from_s, to_s
    return first_s, last_s


def _audio_within(records: Sequence[Record], window: tuple[float, float]) -> float:
    from_s, to_s = window
    return sum(
        duration_s
        for each in records
        for arrival_s, duration_s in zip(each.arrivals_s, each.durations_s, strict=True)
        if from_s < arrival_s <= to_s
    )


def _overlap(record: Record, window: tuple[float, float]) -> float:
    from_s, to_s = window
    return max(0.0, min(record.ended_s, to_s) - max(record.sent_s, from_s))
