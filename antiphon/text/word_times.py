"""Word times from the durations of phonemes."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.types import WordTime
from antiphon.text.base import ReadWord


def word_times(
    words: tuple[ReadWord, ...],
    durations: NDArray[np.float32],
    span: tuple[int, int],
    num_frames: int,
    frame_s: float,
) -> Iterator[WordTime]:
    """Yield the times of a sentence's words, from the start of its audio.

    Args:
        durations: durations of its phonemes, with the padding at both ends, in any unit.
        span: frames of the audio, first and one past the last.
        num_frames: number of all frames made by the network.
    """
    ends = np.concatenate([[0.0], np.cumsum(durations)]) * (num_frames / max(1.0, durations.sum()))
    start, stop = span
    for word in words:
        first, last = ends[word.start + 1], ends[word.stop + 1]  # after the padding
        yield word.timed(
            float(np.clip(first - start, 0, stop - start)) * frame_s,
            float(np.clip(last - start, 0, stop - start)) * frame_s,
        )
