"""Cuts text that is still arriving into segments, the same ones in whatever pieces it arrives.

A place is judged as soon as the first character after it is there, and by nothing that follows.
"""

import re
from dataclasses import dataclass
from typing import Protocol

from sentencex import segment as split_sentences

from antiphon.pipeline.text import cut_position

_CLOSERS = r"[\"'”’»)\]』」）]*"
_NEXT = r"(?=[^\s\"'”’»)\]』」）\[])|(?<=\s)(?=[\"'(])"
"""What follows begins something new: no space, no end of a quotation, no tag for what precedes."""
_SENTENCE_END = re.compile(rf"(?:[.!?…]{_CLOSERS}\s+|[。！？]{_CLOSERS}\s*)(?:{_NEXT})")
_PARAGRAPH_END = re.compile(r"\n\s*\n\s*(?=\S)")
_CLAUSE_END = re.compile(rf"(?:[,;:—–]{_CLOSERS}\s+|[，、；：]{_CLOSERS}\s*)(?:{_NEXT})")
_SPACE_END = re.compile(r"\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class Part:
    """More text of the current segment, and whether it is the segment's last."""

    text: str
    ends_segment: bool


class Cutter(Protocol):
    """Decides where segments end; all parts, joined, are the text."""

    def push(self, text: str) -> list[Part]:
        """Take in more text; return what has become certain."""
        ...

    def flush(self) -> list[Part]:
        """End the segment here, if one has begun."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """How long segments are, in characters.

    Attributes:
        min_sentence: a sentence that ends before is joined with the next.
        min_clause: likewise for a clause; ``None`` ends segments at sentences only.
        max: more is cut, at a clause or a space where there is one.
    """

    max: int
    min_sentence: int = 1
    min_clause: int | None = None


class SentenceCutter:
    """Gives whole segments: sentences or, where allowed, clauses."""

    def __init__(self, lengths: Lengths, first: Lengths | None = None) -> None:
        """Cut by ``lengths``, the first segment by ``first``, which may be shorter to be early."""
        self._lengths = first or lengths
        self._later = lengths
        self._waiting = ""
        self._num_judged = 0

    def push(self, text: str) -> list[Part]:
        """See `Cutter.push`."""
        self._waiting += text
        parts = []
        while (end := self._end()) is not None:
            parts.append(Part(self._waiting[:end], ends_segment=True))
            self._begin_next(self._waiting[end:])
        return parts

    def flush(self) -> list[Part]:
        """See `Cutter.flush`."""
        rest = self._waiting
        if not rest.strip():
            return []
        self._begin_next("")
        return [Part(rest, ends_segment=True)]

    def _begin_next(self, waiting: str) -> None:
        self._waiting, self._num_judged, self._lengths = waiting, 0, self._later

    def _end(self) -> int | None:
        """Return where the current segment ends, if that is certain."""
        text, lengths = self._waiting, self._lengths
        for end, pattern in self._candidates():
            self._num_judged = end
            if self._is_end(end, pattern):
                return end
        if len(text) > lengths.max:
            return cut_position(text[: lengths.max + 1], lengths.max)
        return None

    def _candidates(self) -> list[tuple[int, re.Pattern[str]]]:
        """Return the places not judged yet where something may end, in order, and what may."""
        clauses = () if self._lengths.min_clause is None else (_CLAUSE_END,)
        found = {
            match.end(): pattern
            for pattern in (*clauses, _SENTENCE_END, _PARAGRAPH_END)
            for match in pattern.finditer(self._waiting, 0, self._lengths.max + 1)
        }
        return sorted(
            (each for each in found.items() if each[0] > self._num_judged), key=lambda each: each[0]
        )

    def _is_end(self, end: int, pattern: re.Pattern[str]) -> bool:
        num_characters = len(self._waiting[:end].strip())
        if pattern is _CLAUSE_END:
            return num_characters >= (self._lengths.min_clause or 0)
        if num_characters < self._lengths.min_sentence:
            return False
        return pattern is _PARAGRAPH_END or _ends_sentence(self._waiting, end)


class LengthCutter:
    """Passes all text on at once; ends a segment at a sentence's end when it has grown long."""

    def __init__(self, max_characters: int) -> None:
        """End segments between half of ``max_characters`` and a little more than all of it."""
        self._min = max_characters // 2
        self._max = max_characters
        self._limit = max_characters + max_characters // 4
        self._segment = ""
        self._num_passed = 0

    def push(self, text: str) -> list[Part]:
        """See `Cutter.push`."""
        self._segment += text
        parts = []
        while (end := self._end()) is not None:
            parts.append(Part(self._segment[self._num_passed : end], ends_segment=True))
            self._segment, self._num_passed = self._segment[end:], 0
        if len(self._segment) > self._num_passed:
            parts.append(Part(self._segment[self._num_passed :], ends_segment=False))
            self._num_passed = len(self._segment)
        return parts

    def flush(self) -> list[Part]:
        """See `Cutter.flush`."""
        if not self._segment:
            return []
        self._segment, self._num_passed = "", 0
        return [Part("", ends_segment=True)]

    def _end(self) -> int | None:
        """Return the first place after which the next segment begins, if it is there yet."""
        text, seen = self._segment, self._limit + 1
        if len(text) <= self._min:
            return None
        ends = [
            *(
                each.end()
                for each in _SENTENCE_END.finditer(text, self._min, seen)
                if _ends_sentence(text, each.end())
            ),
            *(each.end() for each in _SPACE_END.finditer(text, self._max, seen)),
            *((self._limit,) if len(text) > self._limit else ()),
        ]
        return min(ends, default=None)


def _ends_sentence(text: str, end: int) -> bool:
    """Whether a sentence ends here, judged with one character of what follows."""
    num_before = len(text[:end].rstrip())
    following = text[end] if text[end].isalnum() else "A"  # what a quotation begins with
    position = 0
    for sentence in split_sentences("en", text[:end] + following):
        position += len(sentence)
        if num_before <= position <= end:
            return True
    return False
