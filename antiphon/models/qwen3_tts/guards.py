"""Tells when speech has run away from its text: some generations never say that they are done.

Torch-free. The limits are generous: slow speech, long pauses and singing pass; what does not is
silence without end, or the same few sounds over and over.
"""

from collections import Counter, deque

MAX_POSITIONS = 4096
"""Positions of a slot: prompt and frames together, more than five minutes of speech."""
MIN_BUDGET_FRAMES = 192
FRAMES_PER_TEXT_TOKEN = 12

_WINDOW_FRAMES = 100  # 8 s
_STUCK_MAX_DISTINCT = 4
_LOOP_MAX_PERIOD_FRAMES = 32  # so the window and what it repeats are four periods at least
_REMEMBERED_FRAMES = _WINDOW_FRAMES + _LOOP_MAX_PERIOD_FRAMES


def frame_budget(num_text_tokens: int) -> int:
    """Return how many frames a text may take, about a second of speech per token and more."""
    return max(MIN_BUDGET_FRAMES, FRAMES_PER_TEXT_TOKEN * num_text_tokens)


class LoopDetector:
    """Watches the group-0 codes of one request.

    It finds codes that repeat with a period of up to 2.5 s, four times and for 8 s at least, and
    stretches of 8 s that are made of next to no different codes. Ordinary speech costs next to
    nothing: what goes nowhere has few different codes, and only then is it looked at closely.
    """

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=_REMEMBERED_FRAMES)
        self._counts: Counter[int] = Counter()  # of the codes in the window

    def observe(self, code: int) -> bool:
        """Take in a frame's code of group 0; return whether the speech is going nowhere."""
        self._recent.append(code)
        self._counts[code] += 1
        if len(self._recent) <= _WINDOW_FRAMES:
            is_full = len(self._recent) == _WINDOW_FRAMES
            return is_full and len(self._counts) <= _STUCK_MAX_DISTINCT
        gone = self._recent[-_WINDOW_FRAMES - 1]
        self._counts[gone] -= 1
        if not self._counts[gone]:
            del self._counts[gone]
        if len(self._counts) > _LOOP_MAX_PERIOD_FRAMES:
            return False
        return len(self._counts) <= _STUCK_MAX_DISTINCT or self._is_looping()

    def _is_looping(self) -> bool:
        """Whether for some period every code of the window is the one that was a period before."""
        codes = [*self._recent]
        window = codes[-_WINDOW_FRAMES:]
        longest = min(_LOOP_MAX_PERIOD_FRAMES, len(codes) - _WINDOW_FRAMES)
        return any(
            codes[-_WINDOW_FRAMES - period : -period] == window for period in range(1, longest + 1)
        )
