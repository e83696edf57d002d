"""Makes one stream of segments: their edges fade, so that nothing clicks, and pauses are filled up.

A segment that others stand beside begins and ends at zero: 5 ms are faded in after one, and faded
out before the next. What is alone leaves as it came, sample for sample.
"""

from functools import lru_cache

import numpy as np

from antiphon.audio.wav import silence
from antiphon.contracts.types import Samples

_FADE_MS = 5
_AUDIBLE = 10 ** (-50 / 20)


def num_quiet_after(samples: Samples, num_before: int) -> int:
    """Return the number of samples since the last audible one, in any channel.

    Args:
        num_before: the number before them.
    """
    audible = np.nonzero(np.abs(samples) > _AUDIBLE)[0]
    return len(samples) - 1 - int(audible[-1]) if len(audible) else num_before + len(samples)


@lru_cache
def _fade_in(sample_rate_hz: int) -> Samples:
    num_samples = sample_rate_hz * _FADE_MS // 1000
    ramp = (np.arange(num_samples) + 0.5) / num_samples
    return (0.5 - 0.5 * np.cos(np.pi * ramp)).astype(np.float32)


class Joiner:
    """Takes segments piece by piece; the result is the same however they were cut."""

    def __init__(self, sample_rate_hz: int, channels: int = 1) -> None:
        self._channels = channels
        self._sample_rate_hz = sample_rate_hz
        self._fade_in = _fade_in(sample_rate_hz)
        if channels > 1:
            self._fade_in = self._fade_in[:, np.newaxis]
        self._held = silence(0, channels)
        self._num_taken = 0
        self._num_silent = 0
        self._fades_in = self._fades_out = False

    def begin(self, min_pause_s: float | None, *, has_next: bool) -> Samples:
        """Begin a segment; return the silence that comes before it, possibly none.

        Args:
            min_pause_s: fill the quiet end of the segment before up to this; ``None`` if there is
                no segment before.
            has_next: whether another segment follows; if that is not known yet, that one does.
        """
        num_missing = 0
        if min_pause_s is not None:
            num_missing = max(0, round(min_pause_s * self._sample_rate_hz) - self._num_silent)
        self._fades_in, self._fades_out = min_pause_s is not None, has_next
        self._num_taken = self._num_silent = 0
        return silence(num_missing, self._channels)

    def push(self, samples: Samples) -> Samples:
        """Take the segment's next samples; return those that are ready."""
        if not self._fades_out:  # nothing follows for which its quiet end would count
            return self._faded_in(samples)
        self._listen(samples)
        samples = self._faded_in(samples)
        waiting = np.concatenate([self._held, samples])
        num_ready = max(0, len(waiting) - len(self._fade_in))
        self._held = waiting[num_ready:]
        return waiting[:num_ready]

    def end(self, *, has_next: bool = True) -> Samples:
        """End the segment; return the rest of it, as it is if nothing follows after all."""
        held, self._held = self._held, silence(0, self._channels)
        if not has_next:
            return held
        return held * self._fade_in[::-1][len(self._fade_in) - len(held) :]

    def _listen(self, samples: Samples) -> None:
        """Count the samples since the last audible one."""
        self._num_silent = num_quiet_after(samples, self._num_silent)

    def _faded_in(self, samples: Samples) -> Samples:
        start = self._num_taken
        self._num_taken += len(samples)
        if not self._fades_in or start >= len(self._fade_in):
            return samples
        samples = samples.copy()
        ramp = self._fade_in[start : start + len(samples)]
        samples[: len(ramp)] *= ramp
        return samples
