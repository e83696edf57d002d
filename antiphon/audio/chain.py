"""Transforms in a row: what each gives goes into the next, and a flush empties them in order."""

from typing import Protocol

import numpy as np

from antiphon.audio.loudness import Limiter
from antiphon.audio.resample import Resampler
from antiphon.audio.stretch import Stretcher
from antiphon.audio.wav import silence
from antiphon.contracts.types import Samples


class Transform(Protocol):
    """Changes a stream of float32 samples piece by piece.

    Their shape is ``[num_samples]`` (mono) or ``[num_samples, channels]``, in and out.

    All that `push` and `flush` return, concatenated, is the same sample for sample however the
    input was cut; only when a sample leaves depends on the cuts. Not safe for two threads at once.
    """

    def push(self, samples: Samples) -> Samples:
        """Take the next samples, possibly none; return those that are ready, possibly none."""

    def flush(self) -> Samples:
        """Return the rest; nothing may be pushed or flushed afterwards."""


class Chain:
    """A `Transform` made of those that are needed, in order; of none, it is the identity."""

    def __init__(
        self,
        source_hz: int,
        target_hz: int,
        speed: float,
        channels: int = 1,
        gain_db: float | None = None,
    ) -> None:
        """Turn audio at ``source_hz`` into audio at ``target_hz``, spoken faster.

        Args:
            speed: 0.25 to 4.0, above 1 is faster; pitch is kept.
            gain_db: change of loudness, with a limiter of peaks; ``None`` for neither.
        """
        self._channels = channels
        self._transforms: list[Transform] = []
        if speed != 1.0:
            self._transforms.append(Stretcher(source_hz, speed, channels))
        if target_hz != source_hz:
            self._transforms.append(Resampler(source_hz, target_hz, channels))
        if gain_db is not None:
            self._transforms.append(Limiter(gain_db, target_hz, channels))

    @property
    def is_identity(self) -> bool:
        """Whether samples leave as they come, at once."""
        return not self._transforms

    def push(self, samples: Samples) -> Samples:
        for transform in self._transforms:
            samples = transform.push(samples)
        return samples

    def flush(self) -> Samples:
        tail = silence(0, self._channels)
        for transform in self._transforms:
            tail = np.concatenate([transform.push(tail), transform.flush()])
        return tail
