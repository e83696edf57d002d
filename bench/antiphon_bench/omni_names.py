"""The figures of vLLM-Omni's benchmark, under its names, so that numbers can be laid side by side.

Its clients count from when a request was sent, and of one stream the whole underrun, with the first
piece played at once; its continuity forgives 100 ms. Its frames are samples. Times are in
milliseconds where the name ends in ``ms``, else in seconds.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from antiphon_bench.playback import TOLERATED_S, underrun_s
from antiphon_bench.record import Record

_PERCENTILES = (90, 95, 99)


def omni_figures(rounds: Sequence[Sequence[Record]], prebuffer_s: float = 0.0) -> dict[str, float]:
    """Return figures over the answers that arrived whole, of all rounds together."""
    whole = [record for records in rounds for record in records if record.is_whole]
    duration_s = sum(
        max(each.ended_s for each in records) - min(each.sent_s for each in records)
        for records in rounds
        if records
    )
    found: dict[str, float] = {
        "completed": len(whole),
        "failed": sum(map(len, rounds)) - len(whole),
        "duration": duration_s,
    }
    if not whole:
        return found
    halts_s = [underrun_s(each.arrivals_s, each.durations_s, prebuffer_s) for each in whole]
    found |= {
        "request_throughput": len(whole) / duration_s,
        "audio_throughput": sum(each.audio_s for each in whole) / duration_s,
        "total_audio_duration_s": sum(each.audio_s for each in whole),
        "audio_continuity_ok_rate": sum(each <= TOLERATED_S for each in halts_s) / len(whole),
    }
    spread: dict[str, Sequence[float]] = {
        "audio_ttfp_ms": [(each.arrivals_s[0] - each.sent_s) * 1000 for each in whole],
        "e2el_ms": [(each.ended_s - each.sent_s) * 1000 for each in whole],
        "audio_rtf": [(each.ended_s - each.sent_s) / each.audio_s for each in whole],
        "audio_duration_s": [each.audio_s for each in whole],
        "audio_underrun_s": halts_s,
        "audio_itl_ms": [
            (after - before) * 1000 for each in whole for before, after in pairwise(each.arrivals_s)
        ],
    }
    for name, values in spread.items():
        if values:
            found |= _named(name, np.asarray(values))
    return found


def _named(name: str, values: "np.ndarray[Any, np.dtype[np.float64]]") -> dict[str, float]:
    return {
        f"mean_{name}": float(values.mean()),
        f"median_{name}": float(np.median(values)),
        f"std_{name}": float(values.std()),
        **{f"p{each}_{name}": float(np.percentile(values, each)) for each in _PERCENTILES},
    }
