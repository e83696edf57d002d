"""Trimming of a sentence's leading silence, and the pause after a sentence.

The networks surround every sentence with silence, some 275 ms before and 425 ms after.
"""

import numpy as np

from antiphon.contracts.types import Samples
from antiphon.families.kokoro.checkpoint import FRAME_SAMPLES

LEAD_FRAMES = 2  # 50 ms: the breath before a soft consonant
FRAME_MS = 25
PAUSE_FRAMES = 10  # 250 ms: with the next lead, 300 ms between sentences

_AUDIBLE = 1e-3  # -60 dBFS


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


def natural_span(samples: Samples, num_after: int = PAUSE_FRAMES) -> tuple[int, int]:
    """Return the first frame and the end of the audible span, with silence around it.

    Silence that the samples do not have is not made up: a span never leaves them.

    Args:
        samples: one sentence.
        num_after: frames of silence after it.
    """
    num_frames = -(-len(samples) // FRAME_SAMPLES)
    padded = np.pad(samples, (0, num_frames * FRAME_SAMPLES - len(samples)))
    power = np.mean(np.square(padded.reshape(num_frames, FRAME_SAMPLES)), axis=1)
    (audible,) = np.nonzero(np.sqrt(power) > _AUDIBLE)
    if len(audible) == 0:
        return 0, num_frames
    first, last = int(audible[0]), int(audible[-1])
    return max(0, first - LEAD_FRAMES), min(num_frames, last + 1 + num_after)
