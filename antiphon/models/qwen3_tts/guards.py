"""Tells when speech has run away from its text: some generations never say that they are done.

Torch-free. The limits are generous: slow speech, long pauses and singing pass; what does not is
silence without end, or the same few sounds over and over.
"""

from collections import deque
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

MAX_POSITIONS = 4096
"""Positions of a slot: prompt and frames together, more than five minutes of speech."""
MIN_BUDGET_FRAMES = 192
FRAMES_PER_TEXT_TOKEN = 12

_STUCK_WINDOW_FRAMES = 100  # 8 s
_STUCK_MAX_DISTINCT = 4
_LOOP_MAX_PERIOD_FRAMES = 32
_LOOP_MIN_FRAMES = 100
_LOOP_MIN_PERIODS = 4


def frame_budget(num_text_tokens: int) -> int:
    """Return how many frames a text may take, about a second of speech per token and more."""
    return max(MIN_BUDGET_FRAMES, FRAMES_PER_TEXT_TOKEN * num_text_tokens)


@dataclass(slots=True, eq=False)
class LoopDetector:
    """Watches the group-0 codes of one request.

    It finds codes that repeat with a period of up to 2.5 s, four times and for 8 s at least, and
    stretches of 8 s that are made of next to no different codes.
    """

    _recent: deque[int] = field(default_factory=lambda: deque(maxlen=_STUCK_WINDOW_FRAMES))
    _last: NDArray[np.int64] = field(  # newest first
        default_factory=lambda: np.full(_LOOP_MAX_PERIOD_FRAMES, -1, np.int64)
    )
    _run_frames: NDArray[np.int64] = field(  # by period: how long the codes have repeated
        default_factory=lambda: np.zeros(_LOOP_MAX_PERIOD_FRAMES, np.int64)
    )

    def observe(self, code: int) -> bool:
        """Take in a frame's code of group 0; return whether the speech is going nowhere."""
        self._run_frames = np.where(self._last == code, self._run_frames + 1, 0)
        self._last[1:] = self._last[:-1].copy()
        self._last[0] = code
        self._recent.append(code)
        return self._is_looping or self._is_stuck

    @property
    def _is_looping(self) -> bool:
        return bool((self._run_frames >= _LONG_ENOUGH_FRAMES).any())

    @property
    def _is_stuck(self) -> bool:
        is_full = len(self._recent) == _STUCK_WINDOW_FRAMES
        return is_full and len(set(self._recent)) <= _STUCK_MAX_DISTINCT


# A run of n frames that repeats with period p has gone through n / p + 1 periods.
_LONG_ENOUGH_FRAMES = np.maximum(
    _LOOP_MIN_FRAMES, (_LOOP_MIN_PERIODS - 1) * np.arange(1, _LOOP_MAX_PERIOD_FRAMES + 1)
)
