"""Detects runaway generation: some requests never sample the end token.

Torch-free. The limits are generous: slow speech, long pauses and singing pass; what does not is
silence without end, or the same few sounds over and over.
"""

import unicodedata
from collections import Counter, deque
from functools import lru_cache

MAX_POSITIONS = 4096
"""Positions of a slot: prompt and frames together, more than five minutes of speech."""
MIN_BUDGET_FRAMES = 192
"""15 s, of any text."""
INSTRUCTED_FACTOR = 2
"""Who says how to speak may ask for very slow speech."""

_FRAMES_OF_KIND = {
    "Ll": 4,  # two and a half letters to a syllable
    "Lu": 12,  # it may stand for itself, in an acronym
    "L": 8,  # kana, and letters of scripts without upper case
    "N": 32,  # large numbers have several words a digit
    "M": 4,
    "P": 12,  # a pause
}
_FRAMES_OF_OTHERS = 24  # signs and pictures are read as words, if they are read
_FRAMES_OF_HAN, _FRAMES_OF_HANGUL = 16, 10  # up to two syllables, and one

_WINDOW_FRAMES = 100  # 8 s
_STUCK_MAX_DISTINCT = 4
_LOOP_MAX_PERIOD_FRAMES = 32  # so the window and what it repeats are four periods at least
_REMEMBERED_FRAMES = _WINDOW_FRAMES + _LOOP_MAX_PERIOD_FRAMES


def slow_frames(text: str) -> int:
    """Return how many frames slow speech takes for a text: what its characters take, added up.

    Slow means one and a half syllables a second, a third of what is usual. No character takes less
    than a frame, so that a text that is read beside the frames is not used up sooner.
    """
    return sum(map(_frames_of, text))


def frame_budget(num_slow_frames: int, *, is_instructed: bool) -> int:
    """Return how many frames a text may take."""
    budget = MIN_BUDGET_FRAMES + num_slow_frames
    return budget * INSTRUCTED_FACTOR if is_instructed else budget


@lru_cache(4096)
def _frames_of(character: str) -> int:
    """Return how many frames a character takes in slow speech: 8 a syllable, and a little more."""
    if character.isspace():
        return 1
    category = unicodedata.category(character)
    if category == "Lo":
        name = unicodedata.name(character, "")
        if name.startswith("CJK"):
            return _FRAMES_OF_HAN
        if name.startswith("HANGUL"):
            return _FRAMES_OF_HANGUL
    of_others = _FRAMES_OF_KIND.get(category[0], _FRAMES_OF_OTHERS)
    return _FRAMES_OF_KIND.get(category, of_others)


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
