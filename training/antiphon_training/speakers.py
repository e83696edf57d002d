"""Synthetic speakers: the voice of the package hibari-tts, and a deeper one made of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.families.hibari.generator import with_durations
from antiphon.families.kit.formats.onnx_session import onnx_session
from antiphon_training.sizes import SAMPLE_RATE_HZ

Samples = NDArray[np.float32]
Labels = NDArray[np.uint8]

_LEAD_MS = 80
_TAIL_MS = 80
"""Silence around speech: with what completes a frame, speech ends within two frames of the end."""
_STEP_SAMPLES = SAMPLE_RATE_HZ // 100
_AUDIBLE_DB = -45.0
"""Level, in relation to the loudest 10 ms, above which sound is audible."""
_PEAK = 0.95
_DURATION_SAMPLES = 600
"""Samples of a phoneme of duration 1."""


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


@dataclass(frozen=True, slots=True)
class Speech:
    """Audio with what is said.

    Attributes:
        samples: 24 kHz audio, int16 ``[num_samples]``.
        phonemes: number of the phoneme at each sample, ``[num_samples]``; 0 is silence.
    """

    samples: NDArray[np.int16]
    phonemes: Labels


class Speaker:
    """Speaks on one thread; a text and a seed give the same samples."""

    def __init__(self, name: str) -> None:
        from hibari import Hibari

        self._style = STYLES[name]
        self._voice = Hibari(threads=1)
        self._network = onnx_session(with_durations(Path(self._voice.model_path).read_bytes()))

    def speak(self, text: str, seed: int) -> Speech:
        """Return speech; empty if there is nothing to pronounce."""
        random = np.random.default_rng(seed)
        parts = [self._sentence(each, random) for each in self._voice.phonemize(text)]
        samples = np.concatenate([np.zeros(0, np.float32), *(part for part, _ in parts)])
        phonemes = np.concatenate([np.zeros(0, np.uint8), *(part for _, part in parts)])
        tone = self._style.tone
        if len(samples) and tone != 1.0:
            samples = _stretched(samples, 1 / tone)
            phonemes = phonemes[(np.arange(len(samples)) * tone).astype(np.int64)]
        first, end = audible_span(samples)
        return Speech(to_int16(trim(samples)), _cut(phonemes, first, end))

    def _sentence(self, phonemes: str, random: np.random.Generator) -> tuple[Samples, Labels]:
        """Return a sentence's samples, and the number of the phoneme at each."""
        from hibari import dsp

        ids = np.array(self._voice.ids(phonemes), np.int64)
        # What is played slower to sound deeper is spoken faster.
        pace = np.array([self._style.pace / self._style.tone], np.float32)
        *spectra, durations = self._network.run(None, {"ids": ids[None], "speed": pace})
        samples = dsp.synth(*(each[0] for each in spectra), random)
        lengths = durations.astype(np.int64) * _DURATION_SAMPLES
        labels = np.repeat(ids.astype(np.uint8), lengths)
        return samples, _cut(labels, 0, len(samples))


def _stretched(samples: Samples, factor: float) -> Samples:
    """Return samples that last ``factor`` times as long, all frequencies divided by it."""
    num_samples = round(len(samples) * factor)
    stretched = np.fft.irfft(np.fft.rfft(samples), num_samples) * (num_samples / len(samples))
    return stretched.astype(np.float32)


def audible_span(samples: Samples) -> tuple[int, int]:
    """Return the first sample and the end of speech with 80 ms around it.

    Both may be outside of the samples; they are equal if there is no speech.
    """
    steps = np.pad(samples, (0, -len(samples) % _STEP_SAMPLES)).reshape(-1, _STEP_SAMPLES)
    level = np.sqrt(np.square(steps).mean(1))
    (audible,) = np.nonzero(level > level.max(initial=0.0) * 10 ** (_AUDIBLE_DB / 20))
    if not len(audible):
        return 0, 0
    lead, tail = (SAMPLE_RATE_HZ * each // 1000 for each in (_LEAD_MS, _TAIL_MS))
    return int(audible[0]) * _STEP_SAMPLES - lead, (int(audible[-1]) + 1) * _STEP_SAMPLES + tail


def trim(samples: Samples) -> Samples:
    """Return speech with 80 ms of silence before and after it, and no louder than full scale."""
    kept = _cut(samples, *audible_span(samples))
    return kept * np.float32(min(1.0, _PEAK / max(1e-9, float(np.abs(kept).max(initial=0.0)))))


def _cut(values: NDArray[Any], first: int, end: int) -> NDArray[Any]:
    """Return a span of values, with zeros where it is outside."""
    inside = values[max(0, first) : max(0, end)]
    return np.pad(inside, (max(0, -first), end - max(0, first) - len(inside)))


def to_int16(samples: Samples) -> NDArray[np.int16]:
    scaled: NDArray[np.int16] = np.rint(np.clip(samples, -1.0, 1.0) * 32767.0).astype(np.int16)
    return scaled
