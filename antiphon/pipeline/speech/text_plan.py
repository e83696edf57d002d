"""Segments and pauses of a text, each segment for one prompt.

A text goes through four steps, in whatever pieces it arrives: pauses are taken out, words are
exchanged by dictionaries, numbers are written out, and the rest is cut into segments.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from antiphon.errors import InputTooLongError, InvalidRequestError
from antiphon.pipeline.speech.normalization import Normalizer
from antiphon.pipeline.speech.pauses import Pause, PauseSplitter
from antiphon.pipeline.speech.pronunciation import Pronunciations, WordReplacer
from antiphon.pipeline.speech.segmenter import Part, Segmenter
from antiphon.pipeline.speech.text import Boundary
from antiphon.pipeline.speech.text_buffer import TextBuffer

MAX_GROWTH = 10
"""A text may be so many times as long when words have been exchanged and numbers written out."""
_MIN_ROOM_CHARACTERS = 10_000


@dataclass(slots=True, eq=False)
class Segment:
    """A text that one prompt can hold, possibly still arriving.

    Attributes:
        index: counts the segments of a text; with the request's seed, it makes the segment's.
        boundary: Boundary to the segment before; `Boundary.NONE` for the first of a section.
        text: never blank.
        next_boundary: once the text is complete: to the next segment; `Boundary.NONE` if this one
            is the last of its section. What is in a section is spoken as one.
    """

    index: int
    boundary: Boundary = Boundary.NONE
    text: TextBuffer = field(default_factory=TextBuffer)
    next_boundary: Boundary = Boundary.NONE

    @property
    def is_last(self) -> bool | None:
        """Whether it is the last of its section; ``None`` if that is not known yet."""
        return self.next_boundary is Boundary.NONE if self.text.is_complete else None


PlanItem: TypeAlias = Segment | Pause


class TextPlanner:
    """Plans a text that is pushed in pieces; a whole text is one push and a finish."""

    def __init__(
        self,
        segmenter: Segmenter,
        pronunciations: Pronunciations,
        *,
        normalizer: Callable[[], Normalizer] | None = None,
        strips: bool = False,
        holds_spaces: bool = True,
        max_characters: int = sys.maxsize,
        is_answer: bool = False,
    ) -> None:
        """Begin a text.

        Args:
            segmenter: cuts what is read.
            pronunciations: those of the request and of the server.
            normalizer: makes what writes numbers and the like out in a section; ``None`` leaves
                them as they are.
            strips: whether spaces around segments are dropped.
            holds_spaces: whether spaces before pauses are dropped, so that they wait for what
                follows; a model that reads token by token is better given them at once, since
                they end its word.
            max_characters: Limit of the text after replacements, which can make it longer.
            is_answer: whether a model writes the text: pauses that are wrong are text then, and
                it may have nothing to speak.
        """
        self._segmenter = segmenter
        self._pronunciations = pronunciations
        self._new_normalizer = normalizer
        self._strips = strips
        self._max_characters = max_characters
        self._holds_spaces = holds_spaces
        self._is_answer = is_answer
        self._pauses = PauseSplitter(holds_spaces=holds_spaces, is_answer=is_answer)
        self._begin_section()
        self._follows_pause = False
        self._segment: Segment | None = None
        self._boundary = Boundary.NONE
        self._num_segments = self._num_pushed = self._num_read = 0

    def push(self, text: str) -> list[PlanItem]:
        """Take in more text; return the segments that begin in it, and its pauses.

        Raises:
            InvalidRequestError: a pause is wrong, or the text becomes too long.
        """
        return self._pushed(text)

    def flush(self) -> list[PlanItem]:
        """End segment and section here, if they have begun; raises as `push` does."""
        items = self._pushed("", is_last=True)
        self._begin_section()
        return items

    def finish(self) -> list[PlanItem]:
        """End the text.

        Raises:
            InvalidRequestError: there was nothing to speak; or as of `push`.
        """
        items = self.flush()
        if self._num_segments == 0 and not self._is_answer:
            raise InvalidRequestError("Input text cannot be empty.", param="input")
        return items

    def whole(self, text: str) -> list[PlanItem]:
        """Plan a text that is there from the beginning; raises as `finish` does."""
        items = self._pushed(text, is_last=True)
        return [*items, *self.finish()]

    def _pushed(self, text: str, *, is_last: bool = False) -> list[PlanItem]:
        self._num_pushed += len(text)
        items: list[PlanItem] = []
        pieces = self._pauses.push(text, is_last=is_last)
        for place, piece in enumerate(pieces):
            if isinstance(piece, Pause):
                items.append(piece)
                self._begin_section()
                self._follows_pause = True
                continue
            is_before_pause = place < len(pieces) - 1
            ends_section = is_last or is_before_pause
            items += self._read(self._trimmed(piece, is_before_pause), ends_section=ends_section)
        return items

    def _begin_section(self) -> None:
        self._words = WordReplacer(self._pronunciations)
        self._normalizer = self._new_normalizer() if self._new_normalizer else None

    def _trimmed(self, text: str, is_before_pause: bool) -> str:
        """Take away the spaces beside pauses; a text without any is left as it is."""
        if self._follows_pause:
            text = text.lstrip()
            self._follows_pause = not text
        return text.rstrip() if is_before_pause and self._holds_spaces else text

    def _read(self, text: str, *, ends_section: bool) -> list[PlanItem]:
        """Exchange words, write numbers out, and cut what is read."""
        limit = min(self._max_characters, MAX_GROWTH * self._num_pushed + _MIN_ROOM_CHARACTERS)
        written: list[str] = []
        num_characters = self._num_read
        for word in self._words.push(text, is_last=ends_section):
            written.append(word)
            num_characters += len(word)
            if num_characters > limit:
                raise InputTooLongError(num_characters, limit)
        text = "".join(written)
        if self._normalizer is not None:
            text = self._normalizer.push(text, is_last=ends_section)
        self._num_read += len(text)
        if self._num_read > limit:
            raise InputTooLongError(self._num_read, limit)
        items = self._taken(self._segmenter.push(text))
        return [*items, *self._taken(self._segmenter.flush())] if ends_section else items

    def _taken(self, parts: list[Part]) -> list[PlanItem]:
        """Give parts to their segments; a segment begins with its first letter."""
        begun: list[PlanItem] = []
        for part in parts:
            if self._segment is None:
                if not part.text.strip():
                    continue
                self._segment = Segment(self._num_segments, self._boundary)
                self._num_segments += 1
                begun.append(self._segment)
            if text := part.text.strip() if self._strips else part.text:
                self._segment.text.push(text)
            if part.ends_segment:
                self._segment.next_boundary = self._boundary = part.boundary
                self._segment.text.close()
                self._segment = None
        return begun
