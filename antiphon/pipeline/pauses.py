"""Pauses that a text asks for: ``[pause:1.5s]`` or ``[pause:500ms]`` becomes exact silence.

A backslash before the bracket takes the meaning away: ``\\[pause:1s]`` is text. What a tag stands
between is spoken apart, as if it were two paragraphs.
"""

import re
from dataclasses import dataclass

from antiphon.errors import InvalidRequestError

MAX_PAUSE_S = 10.0
MAX_NUM_PAUSES = 1000

_TAG = re.compile(r"(\\?)\[pause:([^\[\]\n]*)\]", re.IGNORECASE)
_DURATION = re.compile(r" *([0-9]{1,6}(?:\.[0-9]{1,6})?) *(ms|s) *", re.IGNORECASE)
_FIRST_OF_UNSPACED_SCRIPTS = "\u0e00"  # Thai; then come those of China and Japan


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence of this length."""

    duration_s: float


def split_pauses(text: str) -> list[str | Pause]:
    """Return the pieces of a text in order, and the pauses between them.

    The pieces, joined, are the text without its tags; some may be blank.

    Raises:
        InvalidRequestError: a tag's duration is none, or too long; it is inside a word; or there
            are too many.
    """
    pieces: list[str | Pause] = []
    written: list[str] = []
    start = 0
    for tag in _TAG.finditer(text):
        written.append(text[start : tag.start()])
        start = tag.end()
        if tag[1]:
            written.append(tag[0][1:])
            continue
        _check_place(text, tag)
        if len(pieces) >= 2 * MAX_NUM_PAUSES:
            raise _wrong(f"it has more than {MAX_NUM_PAUSES} pauses")
        pieces += ["".join(written), _pause(tag)]
        written = []
    pieces.append("".join([*written, text[start:]]))
    return pieces


def _pause(tag: "re.Match[str]") -> Pause:
    duration = _DURATION.fullmatch(tag[2])
    if duration is None:
        shown = ascii(tag[0][:40])
        raise _wrong(f"{shown} is no pause; write [pause:1.5s], [pause:500ms] or \\[pause:...]")
    duration_s = float(duration[1]) / (1000 if duration[2].lower() == "ms" else 1)
    if duration_s > MAX_PAUSE_S:
        raise _wrong(f"a pause of {duration_s:g} s is too long: at most {MAX_PAUSE_S:g} s")
    return Pause(duration_s)


def _check_place(text: str, tag: "re.Match[str]") -> None:
    start, end = tag.span()
    before, after = text[max(0, start - 1) : start], text[end : end + 1]
    if _is_letter(before) and _is_letter(after):
        raise _wrong(f"{tag[0]} is inside a word; put a space before it or after it")


def _is_letter(character: str) -> bool:
    """Whether it would be a part of the word beside it, in scripts that part words by spaces."""
    return character.isalnum() and character < _FIRST_OF_UNSPACED_SCRIPTS


def _wrong(reason: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid 'input': {reason}.", param="input")
