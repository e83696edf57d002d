"""Playback of a stream that is played while it arrives: its begin and its underruns.

All times are in seconds; ``arrivals_s[i]`` is the arrival time of the piece that plays for
``durations_s[i]``. Pieces arrive in order. Playback does not wait for a piece of zero duration.
"""

from collections.abc import Sequence
from itertools import accumulate

TOLERATED_S = 0.1
"""Halts up to this long, all together, count as continuous in laxer figures."""

_CLOCK_S = 1e-6  # resolution of arrival times in reports


def begins_s(
    arrivals_s: Sequence[float], durations_s: Sequence[float], prebuffer_s: float = 0.0
) -> float:
    """Return when playback begins: with the first sound, or once ``prebuffer_s`` have arrived.

    A stream that is shorter than that begins when it is complete.
    """
    for arrival_s, buffered_s in zip(arrivals_s, accumulate(durations_s), strict=True):
        if buffered_s > 0 and buffered_s >= prebuffer_s:
            return arrival_s
    return arrivals_s[-1]


def underrun_s(
    arrivals_s: Sequence[float], durations_s: Sequence[float], prebuffer_s: float = 0.0
) -> float:
    """Return the total time for which playback halts to wait for data.

    A piece can play once it has arrived and all earlier ones have been played. The last piece for
    which playback waits thus determines the sum of all halts: its delay past the time at which it
    would have been played.
    """
    if not arrivals_s:
        return 0.0
    playing_from_s = begins_s(arrivals_s, durations_s, prebuffer_s)
    heard_before_s = accumulate(durations_s, initial=0.0)
    late_s = (
        arrival_s - playing_from_s - before_s
        for arrival_s, before_s, duration_s in zip(
            arrivals_s, heard_before_s, durations_s, strict=False
        )
        if duration_s > 0
    )
    return max(0.0, max(late_s, default=0.0))


def halts_s(
    arrivals_s: Sequence[float], durations_s: Sequence[float], prebuffer_s: float = 0.0
) -> list[float]:
    """Return how long each halt of playback lasts; their sum is `underrun_s`."""
    if not arrivals_s:
        return []
    played_until_s = begins_s(arrivals_s, durations_s, prebuffer_s)
    found = []
    for arrival_s, duration_s in zip(arrivals_s, durations_s, strict=True):
        if duration_s > 0 and arrival_s > played_until_s + _CLOCK_S:
            found.append(arrival_s - played_until_s)
            played_until_s = arrival_s
        played_until_s += duration_s
    return found
