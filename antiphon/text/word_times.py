"""When words are spoken, from how long their phonemes last."""

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
    """Yield when the words of a sentence are spoken, from the beginning of what is heard of it.

    Args:
        words: of the sentence.
        durations: of its phonemes, the padding at both ends included, in any unit.
        span: the frames that are heard, from where to before where.
        num_frames: of all that the network has made.
        frame_s: how long a frame is.
    """
    ends = np.concatenate([[0.0], np.cumsum(durations)]) * (num_frames / max(1.0, durations.sum()))
    start, stop = span
    for word in words:
        first, last = ends[word.start + 1], ends[word.stop + 1]  # behind the padding
        yield WordTime(
            word.word.strip(),
            float(np.clip(first - start, 0, stop - start)) * frame_s,
            float(np.clip(last - start, 0, stop - start)) * frame_s,
        )
