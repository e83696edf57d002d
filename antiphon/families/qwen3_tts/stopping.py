"""Detects runaway generation: some requests never sample the end token.

Torch-free. Long pauses and singing pass; what does not is silence without end, or the same few
sounds over and over. `antiphon.families.kit.speech_budget` bounds the rest.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

MAX_POSITIONS = 4096
"""Positions of a slot: prompt and frames together, more than five minutes of speech."""
RESERVED_FRAMES = 192
"""Positions that a prompt leaves for speech, 15 s."""

_WINDOW_FRAMES = 100  # 8 s
_STUCK_MAX_DISTINCT = 4
_LOOP_MAX_PERIOD_FRAMES = 32  # so the window and what it repeats are four periods at least
_REMEMBERED_FRAMES = _WINDOW_FRAMES + _LOOP_MAX_PERIOD_FRAMES
_MIN_ROWS = 16


class LoopDetectors:
    """Watches the group-0 codes of many requests, a row each.

    It finds codes that repeat with a period of up to 2.5 s, four times and for 8 s at least, and
    stretches of 8 s that are made of next to no different codes. What goes nowhere has few
    different codes, which are counted for all rows at once; only then is a row looked at closely.
    """

    def __init__(self, num_codes: int) -> None:
        """Begin without rows, which come as they are needed.

        Args:
            num_codes: of which there are different ones.
        """
        self._free: list[int] = []
        self._num_seen = np.zeros(0, np.int64)
        self._num_distinct = np.zeros(0, np.int64)  # in the window
        # The latest codes, number n at n % _REMEMBERED_FRAMES, and how often each is in the window.
        self._recent = np.zeros((0, _REMEMBERED_FRAMES), np.int32)
        self._counts = np.zeros((0, num_codes), np.int8)

    def open(self, codes: NDArray[np.int64]) -> int:
        """Return a row of a request that has made ``codes`` already, ``[num_frames]``."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._counts[row] = 0
        self._num_seen[row] = len(codes)
        kept = codes[-_REMEMBERED_FRAMES:]
        numbers = np.arange(len(codes) - len(kept), len(codes))
        self._recent[row, numbers % _REMEMBERED_FRAMES] = kept
        np.add.at(self._counts[row], codes[-_WINDOW_FRAMES:], 1)
        self._num_distinct[row] = np.count_nonzero(self._counts[row])
        return row

    def close(self, row: int) -> None:
        """Give a row back."""
        self._free.append(row)

    def observe(self, rows: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Take in a frame's code of group 0 in each row; return whose speech is going nowhere.

        Args:
            rows: all different, ``[n]``.
            codes: likewise.
        """
        seen = self._num_seen[rows]
        self._recent[rows, seen % _REMEMBERED_FRAMES] = codes
        self._count(rows, codes, 1)
        is_full = seen >= _WINDOW_FRAMES
        leaving = rows[is_full]
        gone = (seen[is_full] - _WINDOW_FRAMES) % _REMEMBERED_FRAMES
        self._count(leaving, self._recent[leaving, gone], -1)
        self._num_seen[rows] = seen + 1
        num_distinct = self._num_distinct[rows]
        is_stuck = (num_distinct <= _STUCK_MAX_DISTINCT) & (seen + 1 >= _WINDOW_FRAMES)
        is_suspect = is_full & ~is_stuck & (num_distinct <= _LOOP_MAX_PERIOD_FRAMES)
        if is_suspect.any():
            is_stuck[is_suspect] = self._are_looping(rows[is_suspect])
        return is_stuck

    def _count(self, rows: NDArray[np.int64], codes: NDArray[Any], change: int) -> None:
        """Count codes as in the window, by 1, or out of it, by -1."""
        counts = self._counts[rows, codes] + change
        self._counts[rows, codes] = counts
        self._num_distinct[rows] += change * (counts == max(change, 0))

    def _are_looping(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether for some period every code of the window is the one that was a period before."""
        numbers = self._num_seen[rows, None] + np.arange(-_REMEMBERED_FRAMES, 0)
        codes = self._recent[rows[:, None], numbers % _REMEMBERED_FRAMES]
        codes[numbers < 0] = -1  # there were none so early
        window, is_looping = codes[:, -_WINDOW_FRAMES:], np.zeros(len(rows), np.bool_)
        for period in range(1, _LOOP_MAX_PERIOD_FRAMES + 1):
            before = codes[:, -_WINDOW_FRAMES - period : -period]
            is_looping |= (before == window).all(axis=1)
        return is_looping

    def _grow(self) -> None:
        """Make twice as many rows."""
        num_rows = len(self._num_seen)
        num_more = max(num_rows, _MIN_ROWS)
        self._free = [*reversed(range(num_rows, num_rows + num_more))]
        self._num_seen = _with_rows(self._num_seen, num_more)
        self._num_distinct = _with_rows(self._num_distinct, num_more)
        self._recent = _with_rows(self._recent, num_more)
        self._counts = _with_rows(self._counts, num_more)


def _with_rows(array: NDArray[Any], num_more: int) -> NDArray[Any]:
    return np.concatenate((array, np.zeros((num_more, *array.shape[1:]), array.dtype)))
