"""How long each phoneme lasts: the network computes it, and gets it as one more output.

A network's file is a protocol buffer; two of them, one behind the other, are read as one. So a few
bytes that name an output, put behind the file, add that output to the network.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from antiphon.models.hibari.reading import ReadWord
from antiphon.models.hibari.vocoder import FRAME_SAMPLES, SAMPLE_RATE_HZ
from antiphon.types import WordTime

_DURATIONS = b"/Clip_output_0"
_MODEL_GRAPH, _GRAPH_OUTPUT, _VALUE_NAME = 7, 12, 1
_FRAME_S = FRAME_SAMPLES / SAMPLE_RATE_HZ


def with_durations(network: bytes) -> bytes:
    """Return a network's file with durations as its last output, if the network knows them."""
    if _DURATIONS not in network:
        return network
    name = _field(_VALUE_NAME, _DURATIONS)
    return network + _field(_MODEL_GRAPH, _field(_GRAPH_OUTPUT, name))


def word_times(
    words: tuple[ReadWord, ...],
    durations: NDArray[np.float32],
    span: tuple[int, int],
    num_frames: int,
) -> Iterator[WordTime]:
    """Yield when the words of a sentence are spoken, from the beginning of what is heard of it.

    Args:
        words: of the sentence.
        durations: of its phonemes, the padding at both ends included, in any unit.
        span: the frames that are heard, from where to before where.
        num_frames: of all that the network has made.
    """
    ends = np.concatenate([[0.0], np.cumsum(durations)]) * (num_frames / max(1.0, durations.sum()))
    start, stop = span
    for word in words:
        first, last = ends[word.start + 1], ends[word.stop + 1]  # behind the padding
        yield WordTime(
            word.word.strip(),
            float(np.clip(first - start, 0, stop - start)) * _FRAME_S,
            float(np.clip(last - start, 0, stop - start)) * _FRAME_S,
        )


def _field(number: int, content: bytes) -> bytes:
    assert len(content) < 128, "its length is one byte"
    return bytes([number << 3 | 2, len(content)]) + content
