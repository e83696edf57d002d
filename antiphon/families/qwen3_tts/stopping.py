"""Detection of runaway generation: some requests never sample the end token.

Torch-free. Long pauses and singing pass; endless silence and endlessly repeated sounds do not.
`antiphon.families.kit.speech_budget` bounds the rest.
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
_LOOP_MAX_PERIOD_FRAMES = 32  # so the window and the repeated part are at least four periods
_REMEMBERED_FRAMES = _WINDOW_FRAMES + _LOOP_MAX_PERIOD_FRAMES
_MIN_ROWS = 16


class LoopDetectors:
    """Detector of loops in the group-0 codes of many requests, a row each.

    It detects codes that repeat with a period of up to 2.5 s, at least four times and for 8 s, and
    runs of 8 s with hardly any different codes. Both have few different codes, which are counted
    for all rows at once; only rows below a limit are checked in detail.
    """

    def __init__(self, num_codes: int) -> None:
        self._free: list[int] = []
        self._num_seen = np.zeros(0, np.int64)
        self._num_distinct = np.zeros(0, np.int64)  # in the window, once that is full
        # The latest codes, number n at n % _REMEMBERED_FRAMES, and the count of each in the window.
        self._recent = np.zeros((0, _REMEMBERED_FRAMES), np.int32)
        self._counts = np.zeros((0, num_codes), np.int8)

    def open(self, codes: NDArray[np.int64]) -> int:
        """Return a row for a request with ``codes`` already generated, ``[num_frames]``."""
        if not self._free:
            self._grow()
        row = self._free.pop()
        self._num_seen[row] = len(codes)
        kept = codes[-_REMEMBERED_FRAMES:]
        self._recent[row, np.arange(len(codes) - len(kept), len(codes)) % _REMEMBERED_FRAMES] = kept
        if len(codes) >= _WINDOW_FRAMES:
            self._count_window(row)
        return row

    def close(self, row: int) -> None:
        self._free.append(row)

    def observe(self, rows: NDArray[np.int64], codes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Add a code to each of distinct rows, ``[n]``; return a mask of those that loop."""
        seen = self._num_seen[rows]
        self._recent[rows, seen % _REMEMBERED_FRAMES] = codes
        self._num_seen[rows] = seen + 1
        is_stuck = seen + 1 >= _WINDOW_FRAMES
        if is_stuck.any():  # codes of a window that is not full are not counted
            is_stuck[is_stuck] = self._are_stuck(rows[is_stuck], codes[is_stuck], seen[is_stuck])
        return is_stuck

    def _are_stuck(
        self, rows: NDArray[np.int64], codes: NDArray[np.int64], seen: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Move the windows on by a code; ``seen``: numbers of codes before it."""
        is_moved = seen >= _WINDOW_FRAMES
        for row in rows[~is_moved].tolist():
            self._count_window(row)
        moved = rows[is_moved]
        self._count(moved, codes[is_moved], 1)
        gone = (seen[is_moved] - _WINDOW_FRAMES) % _REMEMBERED_FRAMES
        self._count(moved, self._recent[moved, gone], -1)
        num_distinct = self._num_distinct[rows]
        is_stuck = num_distinct <= _STUCK_MAX_DISTINCT
        is_suspect = is_moved & ~is_stuck & (num_distinct <= _LOOP_MAX_PERIOD_FRAMES)
        if is_suspect.any():
            is_stuck[is_suspect] = self._are_looping(rows[is_suspect])
        return is_stuck

    def _count_window(self, row: int) -> None:
        """Count the codes of a window that has become full."""
        numbers = self._num_seen[row] - np.arange(1, _WINDOW_FRAMES + 1)
        codes = self._recent[row, numbers % _REMEMBERED_FRAMES]
        self._counts[row] = np.bincount(codes, minlength=self._counts.shape[1])
        self._num_distinct[row] = np.count_nonzero(self._counts[row])

    def _count(self, rows: NDArray[np.int64], codes: NDArray[Any], change: int) -> None:
        """Add codes to the counts of the window (1), or remove them (-1)."""
        counts = self._counts[rows, codes] + change
        self._counts[rows, codes] = counts
        self._num_distinct[rows] += change * (counts == max(change, 0))

    def _are_looping(self, rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return whether the window's codes all repeat those of some period before."""
        numbers = self._num_seen[rows, None] + np.arange(-_REMEMBERED_FRAMES, 0)
        codes = self._recent[rows[:, None], numbers % _REMEMBERED_FRAMES]
        codes[numbers < 0] = -1  # before the first code
        window, is_looping = codes[:, -_WINDOW_FRAMES:], np.zeros(len(rows), np.bool_)
        for period in range(1, _LOOP_MAX_PERIOD_FRAMES + 1):
            before = codes[:, -_WINDOW_FRAMES - period : -period]
            is_looping |= (before == window).all(axis=1)
        return is_looping

    def _grow(self) -> None:
        """Double the number of rows."""
        num_rows = len(self._num_seen)
        num_more = max(num_rows, _MIN_ROWS)
        self._free = [*reversed(range(num_rows, num_rows + num_more))]
        self._num_seen = _with_rows(self._num_seen, num_more)
        self._num_distinct = _with_rows(self._num_distinct, num_more)
        self._recent = _with_rows(self._recent, num_more)
        self._counts = _with_rows(self._counts, num_more)


def _with_rows(array: NDArray[Any], num_more: int) -> NDArray[Any]:
    return np.concatenate((array, np.zeros((num_more, *array.shape[1:]), array.dtype)))
