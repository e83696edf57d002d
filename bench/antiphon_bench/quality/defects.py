"""Detection of defects in a recording by signal processing: no model, no reference."""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from antiphon_bench.quality.recording import SpeechRecording
from antiphon_bench.seams import LOUD, Signal, click_candidates, places_of, seam_faults

CLIPPED = 0.999
_CLIPPED_IN_A_ROW = 3
_FRAME_S = 0.020
_SILENCE = 10 ** (-50 / 20)
_TEMPLATE_S = 0.040
_BETWEEN_TEMPLATES_S = 0.200
_BACK_S = 10.0
_NEAREST_S = 0.1


@dataclass(frozen=True, slots=True)
class Defects:
    """Defects of a recording.

    Attributes:
        clipped_share: share of samples at full scale, in runs of three and more.
        dc_offset: mean of all samples, relative to full scale.
        level_db: root mean square of non-silent samples, relative to full scale.
        silence_share: share of 20 ms frames below -50 dB.
        leading_silence_s: silence before the first sound.
        trailing_silence_s: silence after the last sound.
        longest_pause_s: longest pause within the speech.
        clicks: edges that speech does not have.
        gaps: silences inside a sound.
        repeats: repeated stretches of 40 ms and more, equal sample for sample.
        truncated: whether it begins or ends midway.
    """

    clipped_share: float
    dc_offset: float
    level_db: float
    silence_share: float
    leading_silence_s: float
    trailing_silence_s: float
    longest_pause_s: float
    clicks: int
    gaps: int
    repeats: int
    truncated: bool


def defects_of(recording: SpeechRecording) -> Defects:
    """Return the defects of a recording of at least one sample."""
    signal, rate_hz = recording.samples, recording.sample_rate_hz
    faults = seam_faults(recording.pieces, rate_hz)
    if len(recording.pieces) == 1:  # where it was put together is unknown
        faults = seam_faults(recording.pieces, rate_hz, edges=click_candidates(signal, rate_hz))
    kinds = [fault.kind for fault in faults]
    levels = frame_levels(signal, rate_hz)
    is_loud = levels > _SILENCE
    loud = np.flatnonzero(is_loud)
    rms = float(np.sqrt(np.mean(levels[is_loud] ** 2))) if len(loud) else 0.0
    edges = (int(loud[0]), int(loud[-1])) if len(loud) else (len(levels), len(levels))
    return Defects(
        clipped_share=_clipped(signal),
        dc_offset=float(signal.mean()) if len(signal) else 0.0,
        level_db=20 * float(np.log10(max(rms, 1e-9))),
        silence_share=1 - len(loud) / max(1, len(levels)),
        leading_silence_s=edges[0] * _FRAME_S,
        trailing_silence_s=max(0.0, (len(levels) - 1 - edges[1]) * _FRAME_S),
        longest_pause_s=float(np.diff(loud).max() - 1) * _FRAME_S if len(loud) > 1 else 0.0,
        clicks=kinds.count("click"),
        gaps=kinds.count("gap"),
        repeats=kinds.count("replay") + kinds.count("cumulative") + _repeats(signal, rate_hz),
        truncated="truncation" in kinds,
    )


def frame_levels(signal: Signal, rate_hz: int, frame_s: float = _FRAME_S) -> NDArray[np.float64]:
    """Return the root mean square of each whole frame."""
    size = round(frame_s * rate_hz)
    frames = signal[: len(signal) // size * size].reshape(-1, size)
    return np.asarray(np.sqrt(np.mean(frames**2, axis=1)))


def _clipped(signal: Signal) -> float:
    is_full = np.abs(signal) >= CLIPPED
    if len(signal) < _CLIPPED_IN_A_ROW or not is_full.any():
        return 0.0
    runs = np.asarray(sliding_window_view(is_full, _CLIPPED_IN_A_ROW).all(axis=1))
    clipped = np.zeros(len(signal), bool)
    for shift in range(_CLIPPED_IN_A_ROW):
        clipped[shift : shift + len(runs)] |= runs
    return float(clipped.mean())


def _repeats(signal: Signal, rate_hz: int) -> int:
    """Count stretches that come again within ten seconds; one that goes on counts once."""
    length, step = round(_TEMPLATE_S * rate_hz), round(_BETWEEN_TEMPLATES_S * rate_hz)
    count, last_shift = 0, 0
    for start in range(step, len(signal) - length + 1, step):
        template = signal[start : start + length]
        if float(template @ template) < length * LOUD**2:
            continue
        from_ = max(0, start - round(_BACK_S * rate_hz))
        places = places_of(template, signal[from_ : start - round(_NEAREST_S * rate_hz) + length])
        shift = start - from_ - int(places[-1]) if len(places) else 0
        count += shift != 0 and abs(shift - last_shift) > 1
        last_shift = shift
    return count
