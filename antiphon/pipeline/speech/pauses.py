"""Pauses that a text asks for: ``[pause:1.5s]`` or ``[pause:500ms]`` becomes exact silence.

A backslash before the bracket takes the meaning away: ``\\[pause:1s]`` is text. What a tag stands
between is spoken apart, as if it were two paragraphs.
"""

import re
from dataclasses import dataclass
from functools import partial

from antiphon.errors import InvalidRequestError, invalid
from antiphon.text.offset_map import OffsetMap

MAX_PAUSE_S = 10.0
MAX_NUM_PAUSES = 1000
MAX_TOTAL_PAUSE_S = 600.0

MAX_TAG_CHARACTERS = 1000
"""Longer ones are text: what may be a tag is held back until that is certain."""

_INSIDE = rf"[^\[\]\n]{{0,{MAX_TAG_CHARACTERS}}}+"
_TAG = re.compile(rf"\[pause:({_INSIDE})\]", re.IGNORECASE)
_TAG_BEGINNING = re.compile(rf"\[(?:p(?:a(?:u(?:s(?:e(?::{_INSIDE})?)?)?)?)?)?", re.IGNORECASE)
_DURATION = re.compile(r" *([0-9]{1,6}(?:\.[0-9]{1,6})?) *(ms|s) *", re.IGNORECASE)
_FIRST_OF_UNSPACED_SCRIPTS = "\u0e00"  # Thai; then come those of China and Japan
_wrong = partial(invalid, "input")


@dataclass(frozen=True, slots=True)
class Pause:
    """Silence of this length."""

    duration_s: float


class PauseSplitter:
    """Takes the pauses out of a text that arrives in pieces; where it is cut plays no part.

    Attributes:
        offsets: origins of the text without its tags.
    """

    def __init__(self, *, holds_spaces: bool = True, is_answer: bool = False) -> None:
        """Begin a text.

        Args:
            holds_spaces: whether spaces are held back until it is known whether a pause follows.
            is_answer: whether a model writes the text and cannot correct it: a wrong tag is text.
        """
        self.offsets = OffsetMap()
        self._holds_spaces = holds_spaces
        self._is_answer = is_answer
        self._held = ""
        self._character_before = ""
        self._num_pauses = 0
        self._total_s = 0.0

    def push(self, text: str, *, is_last: bool = False) -> list[str | Pause]:
        """Take in more text, possibly none; return what has become certain of it, in order.

        Raises:
            InvalidRequestError: a tag's duration is invalid, or too long; the tag is inside a
                word; there are too many, or they are too long together. Not of an answer.
        """
        text = self._held + text
        pieces: list[str | Pause] = []
        written: list[str] = []
        start = 0
        end = len(text) if is_last else _certain_end(text)
        for tag in _TAG.finditer(text, 0, end):
            place = tag.start()
            is_escaped = text[max(start, place - 1) : place] == "\\"
            written.append(text[start : place - is_escaped])
            self.offsets.copy(len(written[-1]))
            self.offsets.skip(is_escaped)
            start = tag.end()
            before = text[place - 1] if place else self._character_before
            pause = None if is_escaped else self._understood(tag, before, text[start : start + 1])
            if pause is None:
                written.append(tag[0])
                self.offsets.copy(len(tag[0]))
            else:
                pieces += ["".join(written), pause]
                written = []
                self.offsets.skip(len(tag[0]))
        if not is_last:
            certain = text[:end].removesuffix("\\")
            end = max(start, len(certain.rstrip() if self._holds_spaces else certain))
        self.offsets.copy(end - start)
        pieces.append("".join([*written, text[start:end]]))
        self._held = text[end:]
        self._character_before = text[end - 1 : end] or self._character_before
        return pieces

    def _understood(self, tag: "re.Match[str]", before: str, after: str) -> Pause | None:
        """Return a tag's pause; ``None``: it is wrong, and text."""
        try:
            if _is_letter(before) and _is_letter(after):
                raise _wrong(f"{tag[0][:40]} is inside a word; put a space before it or after it")
            pause = _pause(tag)
            self._num_pauses += 1
            self._total_s += pause.duration_s
            if self._num_pauses > MAX_NUM_PAUSES:
                raise _wrong(f"it has more than {MAX_NUM_PAUSES} pauses")
            if self._total_s > MAX_TOTAL_PAUSE_S:
                raise _wrong(f"its pauses are longer than {MAX_TOTAL_PAUSE_S:g} s together")
            return pause
        except InvalidRequestError:
            if self._is_answer:
                return None
            raise


def split_pauses(text: str) -> list[str | Pause]:
    """Return the pieces of a whole text, and the pauses between them; raises InvalidRequestError.

    The pieces, joined, are the text without its tags; some may be blank.
    """
    return PauseSplitter().push(text, is_last=True)


def pauses_s(text: str) -> float:
    """Return how long the pauses of a whole text are together; raises InvalidRequestError."""
    return sum(each.duration_s for each in split_pauses(text) if isinstance(each, Pause))


def _certain_end(text: str) -> int:
    """Return where a tag begins that what follows decides about, or where the text ends.

    No tag has a bracket inside, so that this is about the last one.
    """
    place = text.rfind("[")
    if place < 0:
        return len(text)
    tag = _TAG.match(text, place)
    is_open = tag.end() == len(text) if tag else _TAG_BEGINNING.fullmatch(text, place) is not None
    return place if is_open else len(text)


def _pause(tag: "re.Match[str]") -> Pause:
    duration = _DURATION.fullmatch(tag[1])
    if duration is None:
        shown = ascii(tag[0][:40])
        raise _wrong(f"{shown} is no pause; write [pause:1.5s], [pause:500ms] or \\[pause:...]")
    duration_s = float(duration[1]) / (1000 if duration[2].lower() == "ms" else 1)
    if duration_s > MAX_PAUSE_S:
        raise _wrong(f"a pause of {duration_s:g} s is too long: at most {MAX_PAUSE_S:g} s")
    return Pause(duration_s)


def _is_letter(character: str) -> bool:
    """Whether it would be a part of the word beside it, in scripts that part words by spaces."""
    return character.isalnum() and character < _FIRST_OF_UNSPACED_SCRIPTS
