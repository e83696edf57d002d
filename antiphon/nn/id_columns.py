"""Input columns: integers of a position, from which kernels compute the input state."""

import numpy as np
from numpy.typing import NDArray

TEXT, CODE, REST = range(3)
"""Rows of columns: an id of the text table, or less than 0 for none; an id of the frame table, or
less than 0; and from there on a frame's packed codes, or the row of a vector."""
CODES_OF_WORD = 4


def num_words(num_groups: int) -> int:
    """Return the number of words that hold a frame."""
    return -(-num_groups // CODES_OF_WORD)


def packed_codes(frames: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pack codes below 65536, ``[num_frames, num_groups]``, into words, the first one lowest."""
    num_frames, num_groups = frames.shape
    codes = np.zeros((num_frames, num_words(num_groups) * CODES_OF_WORD), "<u2")
    codes[:, :num_groups] = frames
    return codes.view("<i8")
