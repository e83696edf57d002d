"""Pauses that a text asks for: ``[pause:1.5s]`` or ``[pause:500ms]`` becomes exact silence.

A backslash before the bracket takes the meaning away: ``\\[pause:1s]`` is text. What a tag stands
between is spoken apart, as if it were two paragraphs.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.errors import InvalidRequestError

MAX_PAUSE_S = 10.0
MAX_NUM_PAUSES = 1000
MAX_TOTAL_PAUSE_S = 600.0

_TAG = re.compile(r"\[pause:([^\[\]\n]*+)\]", re.IGNORECASE)
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
        InvalidRequestError: a tag's duration is none, or too long; it is inside a word; there are
            too many, or they are too long together.
    """
    pieces: list[str | Pause] = []
    written: list[str] = []
    start = 0
    total_s = 0.0
    for tag in _tags(text):
        is_escaped = text[max(start, tag.start() - 1) : tag.start()] == "\\"
        written.append(text[start : tag.start() - is_escaped])
        start = tag.end()
        if is_escaped:
            written.append(tag[0])
            continue
        _check_place(text, tag)
        if len(pieces) >= 2 * MAX_NUM_PAUSES:
            raise _wrong(f"it has more than {MAX_NUM_PAUSES} pauses")
        pause = _pause(tag)
        total_s += pause.duration_s
        if total_s > MAX_TOTAL_PAUSE_S:
            raise too_much_silence()
        pieces += ["".join(written), pause]
        written = []
    pieces.append("".join([*written, text[start:]]))
    return pieces


def too_much_silence() -> InvalidRequestError:
    """Return the error for pauses that are too long together."""
    return _wrong(f"its pauses are longer than {MAX_TOTAL_PAUSE_S:g} s together")


def _tags(text: str) -> Iterator["re.Match[str]"]:
    """Yield all tags, those with a backslash before them too."""
    place = text.find("[")
    while place >= 0:
        tag = _TAG.match(text, place)
        if tag is not None:
            yield tag
        place = text.find("[", place + 1 if tag is None else tag.end())


def _pause(tag: "re.Match[str]") -> Pause:
    duration = _DURATION.fullmatch(tag[1])
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
        raise _wrong(f"{tag[0][:40]} is inside a word; put a space before it or after it")


def _is_letter(character: str) -> bool:
    """Whether it would be a part of the word beside it, in scripts that part words by spaces."""
    return character.isalnum() and character < _FIRST_OF_UNSPACED_SCRIPTS


def _wrong(reason: str) -> InvalidRequestError:
    return InvalidRequestError(f"Invalid 'input': {reason}.", param="input")
