"""Tells how a stream differs from the whole that it should be: what came twice, or not at all.

Both are walked side by side. Where they part, the stream's next sound is looked up in the whole: an
earlier place is a replay, a later one means that something is missing, and none that it is other
audio. So each fault is told once, however long it is.
"""

import numpy as np
from numpy.typing import NDArray

from antiphon_bench.seams import (
    LOUD,
    MATCH_S,
    SAME,
    FaultKind,
    SeamFault,
    Signal,
    num_equal,
    places_of,
)

_MOST_FAULTS = 32
_SAME_DURATION = 0.01
_SAME_SPEECH = 0.9
_SHORTEST_S = 0.002
"""Silence that is longer or shorter by less is nobody's loss."""


def stream_differences(
    stream: NDArray[np.floating],
    whole: NDArray[np.floating],
    sample_rate_hz: int,
    *,
    whole_rate_hz: int | None = None,
    tolerance: float = SAME,
) -> list[SeamFault]:
    """Return what makes a stream other than the whole, by time; nothing if they are one.

    Args:
        stream: mono samples in [-1, 1], shape ``[num_samples]``.
        whole: what should have come, likewise: the same request, answered at once.
        sample_rate_hz: that the stream is said to have.
        whole_rate_hz: of the whole, if it is another.
        tolerance: relative distance that is none, for what an encoder changes.

    Raises:
        ValueError: the rates differ, and durations are as they should be: nothing more can be said.
    """
    ours, theirs = stream.astype(np.float64), whole.astype(np.float64)
    fault = _rate_fault(ours, theirs, sample_rate_hz, whole_rate_hz or sample_rate_hz)
    if fault is not None:
        return [fault]
    if whole_rate_hz not in (None, sample_rate_hz):
        raise ValueError("Of two rates, only the durations can be compared.")
    return _Walk(ours, theirs, sample_rate_hz, tolerance).faults()


class _Walk:
    """Both signals, and how far each has been read."""

    def __init__(self, stream: Signal, whole: Signal, rate_hz: int, tolerance: float) -> None:
        self._stream = stream
        self._whole = whole
        self._rate_hz = rate_hz
        self._tolerance = tolerance
        self._length = round(MATCH_S * rate_hz)
        self._at = 0
        self._whole_at = 0
        self._found: list[SeamFault] = []

    def faults(self) -> list[SeamFault]:
        while len(self._found) < _MOST_FAULTS:
            self._go_on()
            if self._at >= len(self._stream) or not self._look_up():
                break
        rest = self._whole[self._whole_at :]
        if _is_loud(rest) and len(self._found) < _MOST_FAULTS:
            self._tell("truncation", f"{self._ms(len(rest))} of the end did not come", len(rest))
        return self._found

    def _go_on(self) -> None:
        for block in (max(1, self._length // 10), 1):
            ours, theirs = self._stream[self._at :], self._whole[self._whole_at :]
            num_same = num_equal(ours, theirs, block, self._tolerance)
            self._at += num_same
            self._whole_at += num_same

    def _look_up(self) -> bool:
        """Find the stream's next sound in the whole, tell the fault, and go there."""
        rest = len(self._stream) - self._at
        start = self._next_sound(self._at)
        if start is None:
            if rest > _SHORTEST_S * self._rate_hz and self._whole_at >= len(self._whole):
                self._tell("gap", f"{self._ms(rest)} of silence at its end", rest)
            return False
        while start + self._length <= len(self._stream):
            template = self._stream[start : start + self._length]
            places = places_of(template, self._whole, self._tolerance)
            if len(places):
                expected = self._whole_at + start - self._at
                place = int(places[np.abs(places - expected).argmin()])
                self._judge(start, place)
                return True
            start += self._length
        self._tell("altered", f"{self._ms(rest)} are other audio", rest)
        self._whole_at = len(self._whole)
        return False

    def _judge(self, start: int, place: int) -> None:
        """Say what lies between where the signals parted and where they meet again."""
        num_ours, shift = start - self._at, place - self._whole_at
        if num_ours == shift == 0:  # one sample is further off than all of them together
            self._at, self._whole_at = start + self._length, place + self._length
            return
        put_in = self._stream[self._at : start]
        extra = num_ours - shift
        shortest = _SHORTEST_S * self._rate_hz
        if _is_loud(self._whole[place : self._whole_at]):
            self._tell("replay", f"{self._ms(extra)} come again", extra)
        elif _is_loud(put_in):
            kind: FaultKind = "click" if num_ours <= self._length else "altered"
            self._tell(kind, f"{self._ms(num_ours)} are other audio", num_ours)
        elif extra > shortest:
            self._tell("gap", f"{self._ms(extra)} of silence too much", extra)
        elif _is_loud(self._whole[self._whole_at : place]) or -extra > shortest:
            self._tell("missing", f"{self._ms(shift)} did not come", shift)
        self._at, self._whole_at = start, place

    def _next_sound(self, start: int) -> int | None:
        while start + self._length <= len(self._stream):
            if _is_loud(self._stream[start : start + self._length]):
                return start
            start += self._length
        return None

    def _tell(self, kind: FaultKind, description: str, num_samples: int) -> None:
        at_s, duration_s = self._at / self._rate_hz, num_samples / self._rate_hz
        self._found.append(SeamFault(kind, at_s, description, duration_s))

    def _ms(self, num_samples: int) -> str:
        return f"{num_samples / self._rate_hz * 1000:.0f} ms"


def _is_loud(signal: Signal) -> bool:
    return bool(len(signal)) and float(signal @ signal) >= len(signal) * LOUD**2


def _rate_fault(
    stream: Signal, whole: Signal, rate_hz: int, whole_rate_hz: int
) -> SeamFault | None:
    """Say whether the same speech lasts longer or shorter in the stream."""
    if not len(stream) or not len(whole):
        return None
    ratio = (len(stream) / rate_hz) / (len(whole) / whole_rate_hz)
    if abs(ratio - 1) <= _SAME_DURATION:
        return None
    # The same curve, drawn wider or narrower, with every sample in its place.
    places = np.linspace(0, len(whole) - 1, len(stream))
    drawn = np.interp(places, np.arange(len(whole)), whole)
    if float(stream @ drawn) < _SAME_SPEECH * float(np.linalg.norm(stream) * np.linalg.norm(drawn)):
        return None
    return SeamFault("rate", 0.0, f"it plays for {ratio:.3f} times as long as it should")
