"""Cuts text into segments, the same ones in whatever pieces it arrives.

Of text that arrives, a place is judged as soon as the first character after it is there, and by
nothing that follows. What is looked at for it is bounded, so that the work is linear in the text.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from antiphon.pipeline.speech.text import (
    BLANK_LINE,
    MAX_MARKS_ON_A_LETTER,
    Boundary,
    belongs_to_letter_before,
    boundary_after,
    cut_position,
    segments,
)
from antiphon.text.sentences import ends_sentence

MAX_CHARACTERS_AT_ONCE = 250
"""Longer text is best pushed in pieces of so many: each then takes two milliseconds or so."""

Granularity: TypeAlias = Literal["none", "sentence", "clause"]
"""Of a client's text, what is spoken as an utterance of its own."""
_MAX_UTTERANCE_CHARACTERS = 1000
_MIN_CLAUSE_CHARACTERS = 12

_CLOSERS = r"[\"'”’»)\]』」）]*"
_NEXT = r"(?:(?=[^\s\"'”’»)\]』」）\[])|(?<=\s)(?=[\"'(]))"
"""What follows begins something new: no space, no end of a quotation, no tag for what precedes."""
_PLACE = re.compile(
    rf"(?P<mark>[.!?…。！？,;:—–，、；：]){_CLOSERS}(?P<gap>\s*){_NEXT}"
    r"|(?<!\s)[^\S\n]*+\n[^\S\n]*+\n\s*+(?=\S)"
)
_WIDE_MARKS = "。！？，、；："  # a space after them has no meaning
_SENTENCE_MARKS = ".!?…。！？"
_SPACE = re.compile(r"(?<!\s)\s++(?=\S)")
_NO_SPACE = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class Part:
    """More text of the current segment.

    Attributes:
        ends_segment: whether it is the segment's last.
        boundary: Boundary to the next segment, where one follows for certain.
    """

    text: str
    ends_segment: bool
    boundary: Boundary = Boundary.NONE


class Segmenter(Protocol):
    """Decides where segments end; all parts, joined, are the text."""

    def push(self, text: str) -> list[Part]:
        """Take in more text; return what has become certain."""

    def flush(self) -> list[Part]:
        """End the segment here, if one has begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long segments are, in characters.

    Attributes:
        min_sentence: a sentence that ends before is joined with the next.
        min_clause: The same for a clause; ``None`` ends segments at sentences only.
        max: more is cut, at a clause or a space where there is one.
    """

    max: int
    min_sentence: int = 1
    min_clause: int | None = None


class PackingSegmenter:
    """Waits for all of a text, and gives segments of as many sentences as fit; see `segments`."""

    def __init__(self, max_characters: int) -> None:
        self._max = max_characters
        self._waiting: list[str] = []

    def push(self, text: str) -> list[Part]:
        self._waiting.append(text)
        return []

    def flush(self) -> list[Part]:
        text, self._waiting = "".join(self._waiting), []
        slices = list(segments(text, self._max))
        boundaries = [*(each.boundary for each in slices[1:]), Boundary.NONE]
        pairs = zip(slices, boundaries, strict=False)
        return [Part(each.text, ends_segment=True, boundary=after) for each, after in pairs]


class SentenceSegmenter:
    """Gives whole segments: sentences or, where allowed, clauses."""

    def __init__(self, lengths: Lengths, first: Lengths | None = None) -> None:
        """Cut by ``lengths``, the first segment by ``first``, which may be shorter to be early."""
        self._lengths = first or lengths
        self._later = lengths
        self._waiting = ""
        self._num_judged = 0

    def push(self, text: str) -> list[Part]:
        waiting, start = self._waiting + text, 0
        parts = []
        while (place := self._end(waiting[start : start + self._lengths.max + 1])) is not None:
            text = waiting[start : start + place.end]
            parts.append(Part(text, ends_segment=True, boundary=place.boundary))
            start += place.end
            self._num_judged, self._lengths = 0, self._later
        self._waiting = waiting[start:]
        return parts

    def flush(self) -> list[Part]:
        rest = self._waiting
        if not rest.strip():
            return []
        self._waiting, self._num_judged, self._lengths = "", 0, self._later
        return [Part(rest, ends_segment=True)]

    def _end(self, window: str) -> "_Place | None":
        """Return where the segment that ``window`` begins with ends, if that is certain."""
        for place in _places(window, self._num_judged):
            self._num_judged = place.end
            if self._is_end(window, place):
                return place
        if len(window) > self._lengths.max:
            end = cut_position(window, self._lengths.max)
            return _Place(end, boundary_after(window[:end]))
        return None

    def _is_end(self, window: str, place: "_Place") -> bool:
        if place.boundary is Boundary.NONE:
            return False
        num_characters = len(window[: place.end].strip())
        if place.boundary is Boundary.WORD:
            min_clause = self._lengths.min_clause
            return min_clause is not None and num_characters >= min_clause
        if num_characters < self._lengths.min_sentence:
            return False
        return place.boundary is Boundary.PARAGRAPH or ends_sentence(window, place.end)


class LengthSegmenter:
    """Passes text on at once; ends a segment soon after it has grown long.

    A text of up to `max_characters` is one segment, as it is. Of more, a segment ends at the first
    sentence end after so many characters; if none comes soon, at a clause, then at a space, and
    after half as many again anywhere. Spaces there that come after the first `max_characters` are
    dropped; those around the whole text are not, unless they are so many that it does not fit.
    """

    def __init__(self, max_characters: int) -> None:
        """End segments after ``max_characters``."""
        self._max = max_characters
        self._min_clause = max_characters + max_characters // 4
        self._min_space = max_characters + max_characters * 3 // 8
        self._limit = max_characters + max_characters // 2
        self._segment = ""
        self._num_passed = 0
        self._num_judged = 0
        self._is_first = True

    def push(self, text: str) -> list[Part]:
        """See `Segmenter.push`; where the segment may end, spaces wait for what follows them."""
        waiting, start = self._segment + text, 0
        parts = []
        while True:
            start = self._after_dropped(waiting, start)
            place = self._end(waiting, start)
            if place is None:
                break
            rest = self._spoken(waiting[start : start + place.end])[self._num_passed :]
            parts.append(Part(rest, ends_segment=True, boundary=place.boundary))
            start += place.end
            self._num_passed = self._num_judged = 0
            self._is_first = False
        self._segment = waiting[start:]
        ready = self._spoken(self._segment)
        if len(ready) > self._num_passed:
            parts.append(Part(ready[self._num_passed :], ends_segment=False))
            self._num_passed = len(ready)
        return parts

    def flush(self) -> list[Part]:
        rest = self._segment[self._num_passed :] if len(self._segment) <= self._max else ""
        has_begun = self._num_passed > 0
        self._segment, self._num_passed, self._num_judged, self._is_first = "", 0, 0, True
        return [Part(rest, ends_segment=True)] if has_begun else []

    def _spoken(self, segment: str) -> str:
        """Return a segment without what may turn out to be spaces at its end."""
        without = segment.rstrip()
        return without and segment[: max(len(without), self._max)]

    def _after_dropped(self, waiting: str, start: int) -> int:
        """Return where the segment begins: after the spaces of a cut, or those that do not fit."""
        found = _NO_SPACE.search(waiting, start)
        if found is None:
            return len(waiting) if not self._is_first else start
        is_long = found.start() - start >= self._max
        return found.start() if is_long or not self._is_first else start

    def _end(self, waiting: str, start: int) -> "_Place | None":
        """Return the first place after which the next segment begins, if it is there yet."""
        window = waiting[start : start + self._limit + 1]
        if len(window) <= self._max:
            return None
        found = [self._mark(window), self._space(window), self._anywhere(waiting, start)]
        return min((each for each in found if each), key=lambda each: each.end, default=None)

    def _mark(self, window: str) -> "_Place | None":
        for place in _places(window, self._num_judged):
            self._num_judged = place.end
            if place.end >= self._max and self._is_end(window, place):
                return place
        return None

    def _is_end(self, window: str, place: "_Place") -> bool:
        if place.boundary is Boundary.WORD:
            return place.end >= self._min_clause
        if place.boundary is Boundary.SENTENCE:
            return ends_sentence(window, place.end)
        return place.boundary is Boundary.PARAGRAPH

    def _space(self, window: str) -> "_Place | None":
        for found in _SPACE.finditer(window):
            if found.end() >= self._min_space:
                return _Place(found.end(), boundary_after(window[: found.start()], found[0]))
        return None

    def _anywhere(self, waiting: str, start: int) -> "_Place | None":
        end = first = start + self._limit
        while end < min(len(waiting), first + MAX_MARKS_ON_A_LETTER):
            if not belongs_to_letter_before(waiting, end):
                break
            end += 1
        if _NO_SPACE.search(waiting, end) is None:
            return None
        return _Place(end - start, Boundary.WORD)


class UncutSegmenter:
    """Passes text on at once, as one segment; what is blank is one, too."""

    def push(self, text: str) -> list[Part]:
        return [Part(text, ends_segment=False)]

    def flush(self) -> list[Part]:
        return [Part("", ends_segment=True)]


def utterance_segmenter(granularity: Granularity) -> Segmenter:
    """Return what cuts a client's text into utterances."""
    if granularity == "none":
        return UncutSegmenter()
    min_clause = _MIN_CLAUSE_CHARACTERS if granularity == "clause" else None
    return SentenceSegmenter(Lengths(max=_MAX_UTTERANCE_CHARACTERS, min_clause=min_clause))


def pieces_of(text: str) -> Iterator[str]:
    """Yield a text in pieces that are pushed in a few milliseconds each."""
    for start in range(0, len(text), MAX_CHARACTERS_AT_ONCE):
        yield text[start : start + MAX_CHARACTERS_AT_ONCE]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a segment may begin, and the boundary there; `Boundary.NONE`: it may not."""

    end: int
    boundary: Boundary


def _places(window: str, start: int) -> Iterator[_Place]:
    """Yield what looks like an end, in order; ``start`` is 0 or where one of them was."""
    for found in _PLACE.finditer(window, start):
        mark = found["mark"]
        if mark is None or BLANK_LINE.search(found["gap"]):
            boundary = Boundary.PARAGRAPH
        elif not found["gap"] and mark not in _WIDE_MARKS:
            boundary = Boundary.NONE
        else:
            boundary = Boundary.SENTENCE if mark in _SENTENCE_MARKS else Boundary.WORD
        yield _Place(found.end(), boundary)
