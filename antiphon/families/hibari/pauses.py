"""Trimming of a sentence's leading silence, and the pause after a sentence.

The network surrounds every sentence with silence, some 270 ms before and 450 ms after. Left as
it is, a listener would wait a quarter of a second more for the first sound, and sentences would
be 0.7 s apart, twice what a human reader leaves.
"""

import numpy as np
from numpy.typing import NDArray

from antiphon.families.hibari.vocoder import (
    MIN_VOICED_HZ,
    WINDOW_SAMPLES,
    AcousticFrames,
)

LEAD_FRAMES = 4  # 50 ms: the breath before a soft consonant
FRAME_MS = 12.5
PAUSE_FRAMES = 20  # 250 ms: with the next lead, 300 ms between sentences

_AUDIBLE_DBFS = -60.0
_WINDOW_ENERGY = WINDOW_SAMPLES * 3 / 8  # of a Hann window
# A voiced frame has energy around its harmonics only, about this part of its bins.
_HARMONIC_FILL = 0.15


def natural_span(frames: AcousticFrames, num_after: int = PAUSE_FRAMES) -> tuple[int, int]:
    """Return the first frame and the end of the audible span, with natural silence around it.

    Both may be outside of the frames: silence is missing there.

    Args:
        frames: one sentence.
        num_after: frames of silence after it.
    """
    (audible,) = np.nonzero(level_dbfs(frames) > _AUDIBLE_DBFS)
    if len(audible) == 0:
        return 0, frames.num_frames
    return int(audible[0]) - LEAD_FRAMES, int(audible[-1]) + 1 + num_after


def frames_after(pause_ms: int | None, *, is_last: bool) -> int:
    """Return the frames of silence after a sentence.

    Args:
        pause_ms: pause between sentences, including the lead of the next one; ``None``: the
            default.
        is_last: whether the end of a text may follow: then no more than usual.
    """
    if pause_ms is None:
        return PAUSE_FRAMES
    wanted = max(0, round(pause_ms / FRAME_MS) - LEAD_FRAMES)
    return min(wanted, PAUSE_FRAMES) if is_last else wanted


def level_dbfs(frames: AcousticFrames) -> NDArray[np.float32]:
    """Estimate each frame's loudness (root mean square) from its spectrum, ``[num_frames]``."""
    voiced = frames.f0_hz > MIN_VOICED_HZ
    power = np.where(voiced, _power(frames.harmonic) * np.float32(_HARMONIC_FILL), 0)
    # Z has a power of 2 per bin, and noise that differs from frame to frame cancels to a quarter.
    power += _power(frames.noise) / 2 + _power(frames.residual)
    mean_square = power * np.float32(2 / (WINDOW_SAMPLES * _WINDOW_ENERGY))
    return 10 * np.log10(np.maximum(mean_square, np.float32(1e-20)))


def _power(log_magnitude: NDArray[np.float32]) -> NDArray[np.float32]:
    power: NDArray[np.float32] = np.exp(2 * log_magnitude).sum(axis=0)
    return power
