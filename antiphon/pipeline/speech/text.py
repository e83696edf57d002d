"""Splits long text into segments that one prompt can hold; knows no model.

A text that fits is left as it is, to the character. Of a longer one, each segment is a slice, and
nothing is dropped but the spaces where it is cut.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, auto

from antiphon.text.sentences import last_sentence_end

BLANK_LINE = re.compile(r"\n[^\S\n]*+\n")
_PARAGRAPH_END = re.compile(r"\n[^\S\n]*+\n\s*+")
_SPACES = re.compile(r"\s*+")
_SENTENCE_MARKS = ".!?…。！？"
_CLAUSE_MARKS = ",;:，、；：—"
_CLOSERS = "\"'”’»)]』」）"
MAX_MARKS_ON_A_LETTER = 16
ZERO_WIDTH_JOINER = "\u200d"


class Boundary(StrEnum):
    """What is between two segments."""

    NONE = auto()  # it is the first after a pause, or at all
    WORD = auto()  # a sentence goes on
    SENTENCE = auto()
    PARAGRAPH = auto()


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of a text, and its boundary to the part before."""

    text: str
    boundary: Boundary


def segments(text: str, max_characters: int) -> Iterator[Slice]:
    """Split ``text`` into pieces of at most ``max_characters``, if it is longer than that.

    It is cut at blank lines and sentence ends; neighbouring sentences share a segment while they
    fit. A sentence that is too long is cut at clause marks, then at spaces, then anywhere.
    """
    if len(text) <= max_characters:
        if text.strip():
            yield Slice(text, Boundary.NONE)
        return
    boundary = Boundary.NONE
    for paragraph in paragraphs(text):
        for part in _packed(paragraph, max_characters):
            yield Slice(part, boundary)
            boundary = boundary_after(part)
        boundary = Boundary.PARAGRAPH


def paragraphs(text: str) -> Iterator[str]:
    """Split ``text`` at blank lines; what has no letter, no digit stays with its neighbour."""
    start = end = 0  # of what is whole, without the spaces after it
    is_spoken = False
    for piece_start, piece_end in _pieces(text):
        piece_is_spoken = any(each.isalnum() for each in text[piece_start:piece_end])
        if is_spoken and piece_is_spoken:
            yield text[start:end].strip()
            start, is_spoken = piece_start, False
        end, is_spoken = piece_end, is_spoken or piece_is_spoken
    if last := text[start:end].strip():
        yield last


def boundary_after(text: str, gap: str = "") -> Boundary:
    """Return the boundary between ``text`` and what follows the spaces ``gap`` after it."""
    if BLANK_LINE.search(gap):
        return Boundary.PARAGRAPH
    ended = text.rstrip(_CLOSERS)[-1:]
    return Boundary.SENTENCE if ended and ended in _SENTENCE_MARKS else Boundary.WORD


def segment_seed(seed: int, index: int) -> int:
    """Return the seed of a request's segment; the first segment has the request's own."""
    if index == 0:
        return seed
    digest = hashlib.blake2b(f"{seed}/{index}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 11


def cut_position(head: str, max_characters: int) -> int:
    """Return where to cut so that the first piece is neither too long nor needlessly short."""
    clause = max(head[:max_characters].rfind(mark) for mark in _CLAUSE_MARKS) + 1
    if clause > max_characters // 3:
        return clause
    space = head.rfind(" ")
    return space if space > max_characters // 3 else _whole_character(head, max_characters)


def belongs_to_letter_before(text: str, place: int) -> bool:
    """Whether ``text[place]`` is a mark of the letter before it, or joined to it."""
    is_mark = unicodedata.category(text[place])[0] == "M"
    return is_mark or ZERO_WIDTH_JOINER in text[place - 1 : place + 1]


def _whole_character(text: str, cut: int) -> int:
    """Return ``cut``, or a little before, so that no letter is parted from its marks."""
    for place in range(cut, max(0, cut - MAX_MARKS_ON_A_LETTER), -1):
        if not belongs_to_letter_before(text, place):
            return place
    return cut


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for gap in _PARAGRAPH_END.finditer(text):
        yield start, gap.start()
        start = gap.end()
    yield start, len(text)


def _packed(paragraph: str, max_characters: int) -> Iterator[str]:
    """Yield as many sentences at a time as fit; break what does not fit by itself."""
    start = 0
    while len(paragraph) - start > max_characters:
        end = last_sentence_end(paragraph, start, max_characters)
        if end == start:
            head = paragraph[start : start + max_characters + 1]
            end = start + cut_position(head, max_characters)
        yield paragraph[start:end].rstrip()
        start = after_spaces(paragraph, end)
    if start < len(paragraph):
        yield paragraph[start:]


def after_spaces(text: str, start: int) -> int:
    """Return the place of the first character from ``start`` on that is no space."""
    found = _SPACES.match(text, start)
    assert found is not None, "no spaces are some too"
    return found.end()
