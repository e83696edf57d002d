"""Synthetic speakers: the voice of the package hibari-tts, and a deeper one made of it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from antiphon_training.sizes import SAMPLE_RATE_HZ

Samples = NDArray[np.float32]

_LEAD_MS = 80
_TAIL_MS = 80
"""Silence around speech: with what completes a frame, speech ends within two frames of the end."""
_STEP_SAMPLES = SAMPLE_RATE_HZ // 100
_AUDIBLE_DB = -45.0
"""Level, in relation to the loudest 10 ms, above which sound is audible."""
_PEAK = 0.95


@dataclass(frozen=True, slots=True)
class Style:
    """Changes of the voice.

    Attributes:
        tone: factor of all frequencies, pitch and resonances alike: below 1, a larger speaker.
        pace: factor of the pace.
    """

    tone: float = 1.0
    pace: float = 1.0


STYLES = {"heart": Style(), "deep": Style(tone=0.8)}


class Speaker:
    """Speaks on one thread; a text and a seed give the same samples."""

    def __init__(self, name: str) -> None:
        from hibari import Hibari

        self._style = STYLES[name]
        self._voice = Hibari(threads=1)

    def speak(self, text: str, seed: int) -> NDArray[np.int16]:
        """Return 24 kHz audio, int16 ``[num_samples]``; empty if there is nothing to pronounce."""
        tone = self._style.tone
        # What is played slower to sound deeper is spoken faster.
        samples = self._voice(text, speed=self._style.pace / tone, seed=seed)
        if not len(samples):
            return np.zeros(0, np.int16)
        return to_int16(trim(samples if tone == 1.0 else _stretched(samples, 1 / tone)))


def _stretched(samples: Samples, factor: float) -> Samples:
    """Return samples that last ``factor`` times as long, all frequencies divided by it."""
    num_samples = round(len(samples) * factor)
    stretched = np.fft.irfft(np.fft.rfft(samples), num_samples) * (num_samples / len(samples))
    return stretched.astype(np.float32)


def trim(samples: Samples) -> Samples:
    """Return speech with 80 ms of silence before and after it, and no louder than full scale."""
    steps = np.pad(samples, (0, -len(samples) % _STEP_SAMPLES)).reshape(-1, _STEP_SAMPLES)
    level = np.sqrt(np.square(steps).mean(1))
    (audible,) = np.nonzero(level > level.max(initial=0.0) * 10 ** (_AUDIBLE_DB / 20))
    if not len(audible):
        return np.zeros(0, np.float32)
    lead, tail = (SAMPLE_RATE_HZ * each // 1000 for each in (_LEAD_MS, _TAIL_MS))
    first, end = int(audible[0]) * _STEP_SAMPLES, (int(audible[-1]) + 1) * _STEP_SAMPLES
    around = np.pad(samples, (lead, tail + _STEP_SAMPLES))  # the last step may be a part
    kept = around[first : end + lead + tail]
    return kept * np.float32(min(1.0, _PEAK / max(1e-9, float(np.abs(kept).max()))))


def to_int16(samples: Samples) -> NDArray[np.int16]:
    scaled: NDArray[np.int16] = np.rint(np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)
    return scaled
