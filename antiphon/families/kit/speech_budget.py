"""Upper bounds of prompts, and of speech, for models that may never end by themselves.

Those of speech are generous: slow speech, long pauses and singing pass.
"""

import unicodedata
from functools import lru_cache

from antiphon.errors import invalid

FRAME_RATE_HZ = 12.5
"""Frames per second in which bounds are counted."""
_MIN_BUDGET_FRAMES = 56  # 4.5 s, for any text
_MIN_MORE_FRAMES, _MAX_MORE_FRAMES = 24, 192
"""Silence around and within speech: half of the slow duration, 2 to 15 s."""
_MAX_INSTRUCTIONS_CHARACTERS = 2000
_INSTRUCTED_FACTOR = 2  # Instructions may ask for very slow speech

_FRAMES_OF_KIND = {
    "Ll": 4,  # two and a half letters to a syllable
    "Lu": 12,  # may be spelled, in an acronym
    "L": 8,  # kana, and letters of scripts without upper case
    "N": 32,  # large numbers have several words per digit
    "M": 4,
    "P": 12,  # a pause
}
_FRAMES_OF_OTHERS = 24  # signs and pictures are read as words, if at all
_FRAMES_OF_HAN, _FRAMES_OF_HANGUL = 16, 10  # up to two syllables, and one


def slow_frames(text: str) -> int:
    """Return the number of frames that slow speech takes for a text, summed over its characters.

    Slow means one and a half syllables per second, a third of the usual rate. No character takes
    less than a frame, so that text read beside the frames lasts as long as they do.
    """
    return sum(map(_frames_of, text))


def frame_budget(
    num_slow_frames: int, *, is_instructed: bool = False, is_limited: bool = False
) -> int:
    """Return the most frames that a text may take.

    Args:
        is_instructed: whether the request describes how to speak.
        is_limited: whether the request sets its own limit; the budget then has the largest
            margin, so that limits up to 15 s apply in full.
    """
    more = min(max(num_slow_frames // 2, _MIN_MORE_FRAMES), _MAX_MORE_FRAMES)
    budget = num_slow_frames + (_MAX_MORE_FRAMES if is_limited else more)
    return max(budget, _MIN_BUDGET_FRAMES) * (_INSTRUCTED_FACTOR if is_instructed else 1)


@lru_cache(4096)
def _frames_of(character: str) -> int:
    """Return the frames of a character in slow speech: 8 per syllable, and a little more."""
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


def check_instructions(instructions: str) -> str:
    """Return the instructions of a request; raises InvalidRequestError if they are too long."""
    if len(instructions) > _MAX_INSTRUCTIONS_CHARACTERS:
        most = f"at most {_MAX_INSTRUCTIONS_CHARACTERS} are allowed"
        raise invalid("instructions", f"{len(instructions)} characters; {most}")
    return instructions


def check_prompt_length(num_positions: int, limit: int, param: str = "input") -> None:
    """Refuse a prompt, mostly of ``param``, without room for speech; raises InvalidRequestError."""
    if num_positions > limit:
        reason = f"with it the prompt takes {num_positions} positions; at most {limit} are allowed"
        raise invalid(param, reason)
