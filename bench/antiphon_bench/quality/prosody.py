"""Pitch and pace of a recording, and their drift, which long texts reveal."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon_bench.quality.defects import frame_levels
from antiphon_bench.seams import Signal

LOWEST_HZ, HIGHEST_HZ = 65.0, 400.0
_FRAME_S, _HOP_S = 0.046, 0.010
_VOICED = 0.6
_LOUDNESS = 0.05
_MEANS = 5.0
_WINDOW_S = 5.0
_ENVELOPE_S = 0.010
_SMOOTH_S = 0.08
_NUCLEUS_DB = 3.0
_FEWEST_WINDOWS = 4


@dataclass(frozen=True, slots=True)
class Prosody:
    """Pitch and pace.

    Attributes:
        pitch_hz: median of voiced frames; ``None`` if there are none.
        pitch_range_semitones: range from the 10th to the 90th percentile.
        syllables_per_s: peaks of loudness a second of speech, pauses left out.
        pitch_drift_semitones_per_min: slope of the pitch of windows of 5 s; ``None`` of less than
            20 s.
        pitch_drift_error: standard error of that: a text alone makes pitch rise and fall.
        pace_drift_percent_per_min: slope of their pace, of its mean.
        pace_drift_error: standard error of that.
    """

    pitch_hz: float | None
    pitch_range_semitones: float | None
    syllables_per_s: float
    pitch_drift_semitones_per_min: float | None
    pitch_drift_error: float | None
    pace_drift_percent_per_min: float | None
    pace_drift_error: float | None


def prosody_of(signal: Signal, rate_hz: int) -> Prosody:
    """Return how a recording is spoken."""
    pitches = pitch_track(signal, rate_hz)
    voiced = pitches[pitches > 0]
    low, middle, high = np.percentile(voiced, [10, 50, 90]) if len(voiced) else (0.0, 0.0, 0.0)
    size = round(_WINDOW_S * rate_hz)
    windows = [signal[start : start + size] for start in range(0, len(signal) - size + 1, size)]
    hops = round(_WINDOW_S / _HOP_S)
    medians = [
        float(np.median(part[part > 0])) if (part > 0).sum() >= _MEANS else 0.0
        for part in (pitches[start : start + hops] for start in range(0, len(pitches), hops))
    ][: len(windows)]
    semitones = [12 * float(np.log2(each)) if each else None for each in medians]
    paces = [syllable_rate(each, rate_hz) or None for each in windows]
    mean_pace = float(np.mean([each for each in paces if each] or [1.0]))
    percents = [None if each is None else each / mean_pace * 100 for each in paces]
    pitch_slope, pace_slope = slope_per_min(semitones), slope_per_min(percents)
    return Prosody(
        pitch_hz=float(middle) if len(voiced) else None,
        pitch_range_semitones=12 * float(np.log2(high / low)) if len(voiced) else None,
        syllables_per_s=syllable_rate(signal, rate_hz),
        pitch_drift_semitones_per_min=pitch_slope[0],
        pitch_drift_error=pitch_slope[1],
        pace_drift_percent_per_min=pace_slope[0],
        pace_drift_error=pace_slope[1],
    )


def pitch_track(signal: Signal, rate_hz: int) -> NDArray[np.float64]:
    """Return the fundamental frequency of each 10 ms in Hz; 0 where nothing is voiced.

    The lag at which a frame is most like itself, of its autocorrelation over that of the window
    (Boersma 1993), where the likeness is 0.6 at least.
    """
    size, hop = round(_FRAME_S * rate_hz), round(_HOP_S * rate_hz)
    if len(signal) < size:
        return np.zeros(0)
    frames = np.lib.stride_tricks.sliding_window_view(signal, size)[::hop]
    window = np.hanning(size)
    length = 1 << (2 * size - 1).bit_length()
    of_window = np.fft.irfft(np.abs(np.fft.rfft(window, length)) ** 2, length)
    first, last = int(rate_hz / HIGHEST_HZ), min(size * 2 // 3, int(rate_hz / LOWEST_HZ) + 1)
    loudest = float(np.abs(signal).max())
    found = np.zeros(len(frames))
    for index, frame in enumerate(frames):
        if float(np.abs(frame).max()) < _LOUDNESS * loudest or not loudest:
            continue
        centred = (frame - frame.mean()) * window
        power = np.abs(np.fft.rfft(centred, length)) ** 2
        likeness = np.fft.irfft(power, length)[: last + 1] / of_window[: last + 1]
        likeness = likeness / max(likeness[0], 1e-12)
        # A longer lag fits as well where sound is periodic: of those, the shortest.
        inside = likeness[first:last]
        peaks = np.flatnonzero((inside[1:-1] > inside[:-2]) & (inside[1:-1] >= inside[2:])) + 1
        if not len(peaks) or inside[peaks].max() < _VOICED:
            continue
        best = peaks[inside[peaks] >= 0.9 * inside[peaks].max()][0] + first
        left, middle, right = likeness[best - 1 : best + 2]
        bend = left - 2 * middle + right
        found[index] = rate_hz / (best + (0.5 * (left - right) / bend if bend else 0.0))
    return found


def syllable_rate(signal: Signal, rate_hz: int) -> float:
    """Return peaks of loudness a second of sound: about the syllables; pauses are left out."""
    levels = frame_levels(signal, rate_hz, _ENVELOPE_S)
    width = round(_SMOOTH_S / _ENVELOPE_S)
    if len(levels) <= width:
        return 0.0
    smooth = np.convolve(levels, np.hanning(width + 2)[1:-1] / (width + 1) * 2, "same")
    decibels = 20 * np.log10(np.maximum(smooth, 1e-6))
    floor = decibels.max() - 25
    count, lowest, highest = 0, float(decibels[0]), float(decibels[0])
    is_rising = False
    for level in decibels:
        if is_rising:
            highest = max(highest, level)
            if level < highest - _NUCLEUS_DB:
                is_rising, lowest = False, level
        else:
            lowest = min(lowest, level)
            if level > lowest + _NUCLEUS_DB and level > floor:
                count, is_rising, highest = count + 1, True, level
    sound_s = float((decibels > floor).sum()) * _ENVELOPE_S
    return count / sound_s if sound_s else 0.0


def slope_per_min(
    values: Sequence[float | None],
) -> tuple[float, float] | tuple[None, None]:
    """Return the slope of windows of 5 s per minute, by least squares, and its standard error.

    Fewer than four windows with a value have no slope.
    """
    points = [
        (index * _WINDOW_S / 60, value) for index, value in enumerate(values) if value is not None
    ]
    if len(points) < _FEWEST_WINDOWS:
        return None, None
    minutes, heights = (np.array(each) for each in zip(*points, strict=True))
    slope, height = np.polyfit(minutes, heights, 1)
    rest = heights - (slope * minutes + height)
    variance = float(rest @ rest) / (len(points) - 2)
    spread = float(((minutes - minutes.mean()) ** 2).sum())
    return float(slope), float(np.sqrt(variance / spread))
