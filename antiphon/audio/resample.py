"""Changes sample rates, high quality; of a stream sample for sample the same at any cut."""

import numpy as np
import soxr

from antiphon.audio.wav import silence
from antiphon.contracts.types import Samples


def resampled(samples: Samples, source_hz: int, target_hz: int) -> Samples:
    """Return a whole recording, ``[num_samples]``, at another rate; the same if it is that."""
    if source_hz == target_hz:
        return samples
    resampler = Resampler(source_hz, target_hz)
    return np.concatenate((resampler.push(samples), resampler.flush()))


class Resampler:
    """A `Transform` from one sample rate to another.

    Of ``n`` samples come ``n * target_hz / source_hz``, rounded. The first leave after 40 to
    80 ms of input (the filter looks ahead); `flush` returns the rest.
    """

    def __init__(self, source_hz: int, target_hz: int, channels: int = 1) -> None:
        self._channels = channels
        self._stream = soxr.ResampleStream(
            source_hz, target_hz, num_channels=channels, dtype="float32", quality="HQ"
        )

    def push(self, samples: Samples, *, is_last: bool = False) -> Samples:
        contiguous = np.ascontiguousarray(samples, np.float32)
        ready: Samples = self._stream.resample_chunk(contiguous, last=is_last)
        return ready

    def flush(self) -> Samples:
        return self.push(silence(0, self._channels), is_last=True)
