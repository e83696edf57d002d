"""Refusal of recordings that hold no voice: silence, clicks, hum and constant tones."""

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError

_FRAME_S = 0.04
_SILENCE_DBFS = -75.0
"""Level of a silent frame: above dither, below the vowels of speech of -60 dBFS."""
_QUIET_DBFS = -45.0
"""Level up to which sound must rise above the recording's background noise."""
_RISE_DB = 6.0
_BACKGROUND_PERCENTILE = 10
_MIN_FREQUENCY_HZ = 60.0
_CONSTANT_FACTOR = 4.0
"""Power up to this many times a frequency's median is constant: beats of two tones are within."""
_MIN_CHANGING_SHARE = 0.01
_MIN_RUN = 2  # frames; a click is in one
_MAX_GAP = 10  # frames; a pause between words
_MIN_SOUND_S = 0.2


def check_sound(samples: Samples, sample_rate_hz: int, min_duration_s: float) -> None:
    """Refuse a recording without enough sound that changes as speech does.

    Args:
        samples: mono, ``[num_samples]``.
        min_duration_s: shortest sound that is accepted, short pauses included, in a recording of
            more than twice that length; a shorter one needs sound in half of it.

    Raises:
        InvalidRequestError: it is silent, constant, or its sound is too short.
    """
    power = _power(samples, round(_FRAME_S * sample_rate_hz))
    level = 10 * np.log10(power.sum(axis=1) + 1e-20)
    if not (level >= _SILENCE_DBFS).any():
        raise _no_speech("it is silent", min_duration_s)
    background = np.percentile(level, _BACKGROUND_PERCENTILE)
    is_loud = level >= max(_SILENCE_DBFS, min(background + _RISE_DB, _QUIET_DBFS))
    needed_s = max(min_duration_s, _MIN_SOUND_S) - _FRAME_S  # its ends share frames with silence
    needed = min(needed_s / _FRAME_S, len(level) / 2)
    if not is_loud.any():
        raise _no_speech("it holds nothing but background noise", min_duration_s)
    if (num_loud := _num_sounding(is_loud)) < needed:
        raise _no_speech(f"it holds {num_loud * _FRAME_S:.1f} s of sound", min_duration_s)
    is_loud[is_loud] = _are_changing(power[is_loud])
    if _num_sounding(is_loud) < needed:
        raise _no_speech("its sound is constant, as of a tone or hum", min_duration_s)


def _power(samples: Samples, num_samples: int) -> NDArray[np.float32]:
    """Return mean squares by frame and frequency, of sounds from 60 Hz up."""
    num_frames = len(samples) // num_samples
    frames = samples[: num_frames * num_samples].reshape(num_frames, num_samples)
    window = np.hanning(num_samples + 1)[:-1].astype(np.float32)
    spectrum = np.fft.rfft((frames - frames.mean(axis=1, keepdims=True)) * window)
    power = (np.abs(spectrum) ** 2).astype(np.float32)
    power *= 2 / (num_samples * float(window @ window))
    power[:, : round(_MIN_FREQUENCY_HZ * _FRAME_S)] = 0
    return power


def _are_changing(power: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return for each frame whether some of its power is not there all the time."""
    constant = _CONSTANT_FACTOR * np.median(power, axis=0)
    changing = np.maximum(power - constant, 0).sum(axis=1)
    return np.asarray(changing > _MIN_CHANGING_SHARE * power.sum(axis=1))


def _num_sounding(is_sounding: NDArray[np.bool_]) -> int:
    """Count the frames of sound: without clicks, with the pauses between words."""
    edges = np.flatnonzero(np.diff(np.pad(is_sounding.astype(np.int8), 1)))
    runs = [(start, stop) for start, stop in edges.reshape(-1, 2) if stop - start >= _MIN_RUN]
    gaps = [after[0] - before[1] for before, after in pairwise(runs)]
    sounding = sum(stop - start for start, stop in runs)
    return int(sounding + sum(gap for gap in gaps if gap <= _MAX_GAP))


def _no_speech(reason: str, min_duration_s: float) -> InvalidRequestError:
    return InvalidRequestError(
        f"Reference audio has no speech to imitate: {reason}. At least {min_duration_s:g}s of"
        " clear speech is required.",
        param="ref_audio",
    )
