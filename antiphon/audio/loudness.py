"""Brings a voice to a stated loudness: a static gain and a peak limiter without look-ahead."""

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.wav import silence
from antiphon.contracts.types import Samples

_CEILING = 10 ** (-1.5 / 20)
_RISE_SHARE = 0.5  # of a sample's change, for peaks between samples: keeps them below -1 dBTP
_RELEASE_S = 0.15
_BLOCK_SAMPLES = 256


class Limiter:
    """A `Transform` that multiplies samples and lowers the gain at peaks above the ceiling.

    The level of a sample is the largest of those before it, each decayed by its distance; a rise
    counts more than its sample, since the peak may lie between samples. Levels
    are computed in blocks that begin at fixed places of the stream, by operations that IEEE 754
    defines to the last bit: the result does not depend on how the input was cut.
    """

    def __init__(self, gain_db: float, sample_rate_hz: int, channels: int = 1) -> None:
        """Begin a stream; several channels share one gain."""
        self._gain = np.float64(10 ** (gain_db / 20))
        self._channels = channels
        decay = np.float64(np.exp(-1 / (_RELEASE_S * sample_rate_hz)))
        places = range(_BLOCK_SAMPLES.bit_length() - 1)
        self._steps = [(1 << place, decay ** np.float64(1 << place)) for place in places]
        self._carried = decay ** np.arange(1, _BLOCK_SAMPLES + 1, dtype=np.float64)
        self._last = np.zeros_like(silence(1, channels), np.float64)
        self._begun = np.zeros(0)
        self._level = np.float64(0)

    def push(self, samples: Samples) -> Samples:
        """Return the same number of samples at once."""
        if not len(samples):
            return samples
        raised = samples.astype(np.float64) * self._gain
        before = np.concatenate([self._last, raised[:-1]])
        self._last = raised[-1:]
        peaks = np.abs(raised) + _RISE_SHARE * np.abs(raised - before)
        peaks = peaks if raised.ndim == 1 else peaks.max(axis=1)
        levels = self._levels(peaks)
        factor = np.minimum(1.0, _CEILING / np.maximum(levels, _CEILING))
        factor = factor if raised.ndim == 1 else factor[:, np.newaxis]
        limited: Samples = (raised * factor).astype(np.float32)
        return limited

    def flush(self) -> Samples:
        """Return nothing: no sample is held back."""
        return silence(0, self._channels)

    def _levels(self, peaks: NDArray[np.float64]) -> NDArray[np.float64]:
        num_begun = len(self._begun)
        known = np.concatenate([self._begun, peaks])
        num_whole = len(known) // _BLOCK_SAMPLES
        padded = np.zeros((num_whole + 1, _BLOCK_SAMPLES))
        padded.reshape(-1)[: len(known)] = known
        for distance, decay in self._steps:
            later = padded[:, distance:]
            padded[:, distance:] = np.maximum(later, padded[:, :-distance] * decay)
        for number, block in enumerate(padded):
            np.maximum(block, self._level * self._carried, out=block)
            if number < num_whole:
                self._level = block[-1]
        self._begun = known[num_whole * _BLOCK_SAMPLES :]
        return padded.reshape(-1)[num_begun : len(known)]
