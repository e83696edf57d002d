"""Segments and pauses of a text, each segment for one prompt.

A text goes through four steps, in whatever pieces it arrives: pauses are taken out, words are
exchanged by dictionaries, numbers are written out, and the rest is cut into segments.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Generic, Protocol, TypeAlias, TypeVar

from antiphon.concurrency import cancel_and_wait
from antiphon.contracts.family import SpeechCapabilities
from antiphon.contracts.types import SpeechRequest, WordTime
from antiphon.errors import InputTooLongError, InvalidRequestError, UnspeakableTextError
from antiphon.pipeline.speech.pauses import Pause, PauseSplitter, split_pauses
from antiphon.pipeline.speech.pronunciation import Pronunciations, WordReplacer
from antiphon.pipeline.speech.segmenter import Part, Segmenter
from antiphon.pipeline.speech.text import Boundary, after_spaces
from antiphon.text.normalizer import Normalizer
from antiphon.text.offset_map import OffsetMap

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

MAX_ITEMS_AHEAD = 16

MAX_GROWTH = 10
"""A text may be so many times as long when words have been exchanged and numbers written out."""
_MIN_ROOM_CHARACTERS = 10_000
_MAX_SHOWN_WORDS = 6
_MAX_CHARACTERS_AT_ONCE = 50_000  # a regular expression keeps the interpreter's lock for 0.4 ms
_ENGLISH = ("en", "english", "auto", "")


class TextBuffer:
    """A text that grows at its end; ``is_complete``: whether no more comes."""

    def __init__(self) -> None:
        self.is_complete = False
        self._text = ""
        self._num_taken = 0
        self._has_changed = asyncio.Event()

    @property
    def written(self) -> str:
        """What has come so far."""
        return self._text

    @property
    def taken(self) -> str:
        """What has been read so far."""
        return self._text[: self._num_taken]

    @property
    def has_unread(self) -> bool:
        """Whether `take` would return text at once."""
        return self._num_taken < len(self._text)

    def push(self, text: str) -> None:
        """Add to the end."""
        assert not self.is_complete, "text came after its end"
        self._text += text
        self._has_changed.set()

    def close(self) -> None:
        self.is_complete = True
        self._has_changed.set()

    async def take(self) -> str | None:
        """Return all that has come since the last call, waiting for some; ``None`` at the end."""
        while not self.has_unread and not self.is_complete:
            await self._changed()
        start, self._num_taken = self._num_taken, len(self._text)
        return self._text[start:] or None

    async def whole(self) -> str:
        while not self.is_complete:
            await self._changed()
        self._num_taken = len(self._text)
        return self._text

    async def _changed(self) -> None:
        self._has_changed.clear()
        await self._has_changed.wait()


class Source(Protocol[T_co]):
    """A stream that is pulled by calls, so that its items pass no further generator."""

    async def next(self) -> T_co | None:
        """Return the next item; ``None`` at the end."""

    async def close(self) -> None:
        """Free what it holds, wherever it is; may be called again."""


class Prefetcher(Generic[T]):
    """A `Source` that pulls another one in a task of its own, a bounded number of items ahead."""

    def __init__(self, source: Source[T]) -> None:
        """Begin to pull."""
        self._source = source
        self._room = asyncio.Semaphore(MAX_ITEMS_AHEAD)
        self._ready: asyncio.Queue[T | None] = asyncio.Queue()
        self._pulling = asyncio.create_task(_pull(source, self._ready, self._room))
        self._pulling.add_done_callback(lambda _: self._ready.put_nowait(None))

    @property
    def is_empty(self) -> bool:
        """Whether all that has been pulled has been taken."""
        return self._ready.empty()

    async def next(self) -> T | None:
        """See `Source.next`; raises what the other one raises, in its turn."""
        item = await self._ready.get()
        if item is None:
            await self._pulling
        self._room.release()
        return item

    async def close(self) -> None:
        await cancel_and_wait(self._pulling)
        await self._source.close()


async def _pull(
    source: Source[T], ready: "asyncio.Queue[T | None]", room: asyncio.Semaphore
) -> None:
    while (item := await source.next()) is not None:
        await room.acquire()
        ready.put_nowait(item)


@dataclass(slots=True, eq=False)
class Segment:
    """A text that one prompt can hold, possibly still arriving.

    Attributes:
        index: counts the segments of a text; with the request's seed, it makes the segment's.
        boundary: Boundary to the segment before; `Boundary.NONE` for the first of a section.
        text: never blank.
        next_boundary: once the text is complete: to the next segment; `Boundary.NONE` if this one
            is the last of its section. What is in a section is spoken as one.
        offset: offset of its first character in the text that is read.
    """

    index: int
    boundary: Boundary = Boundary.NONE
    text: TextBuffer = field(default_factory=TextBuffer)
    next_boundary: Boundary = Boundary.NONE
    offset: int = 0

    @property
    def is_last(self) -> bool | None:
        """Whether it is the last of its section; ``None`` if that is not known yet."""
        return self.next_boundary is Boundary.NONE if self.text.is_complete else None


PlanItem: TypeAlias = Segment | Pause


class TextPlanner:
    """Plans a text that is pushed in pieces; a whole text is one push and a finish.

    Attributes:
        unspoken: words that were left out of the sections that have ended.
    """

    def __init__(
        self,
        segmenter: Segmenter,
        pronunciations: Pronunciations,
        *,
        normalizer: Callable[[OffsetMap], Normalizer] | None = None,
        strips: bool = False,
        holds_spaces: bool = True,
        max_characters: int = sys.maxsize,
        is_answer: bool = False,
    ) -> None:
        """Begin a text.

        Args:
            normalizer: makes what writes numbers out in a section; ``None``: they stay as they are.
            strips: whether spaces around segments are dropped.
            holds_spaces: whether spaces before pauses are dropped, so that they wait for what
                follows; a model that reads token by token needs them at once: they end its word.
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
        self._offsets_of_words, self._offsets_of_written = OffsetMap(), OffsetMap()
        self.unspoken: list[str] = []
        self._sent = self._unplaced = ""
        self._num_placed = self._last_offset = 0
        self._begin_section()
        self._follows_pause = False
        self._segment: Segment | None = None
        self._boundary = Boundary.NONE
        self._num_segments = self._num_read = 0

    def push(self, text: str, *, is_last: bool = False) -> list[PlanItem]:
        """Take in more text; return the segments that begin in it, and its pauses.

        Raises:
            InvalidRequestError: a pause is wrong, or the text becomes too long.
        """
        self._sent += text
        items: list[PlanItem] = []
        pieces = self._pauses.push(text, is_last=is_last)
        for place, piece in enumerate(pieces):
            if isinstance(piece, Pause):
                items.append(piece)
                self._begin_section()
                self._follows_pause = True
                continue
            is_before_pause = place < len(pieces) - 1
            text = self._without_spaces_after_pause(piece)
            stop = len(text.rstrip() if is_before_pause and self._holds_spaces else text)
            items += self._read(text[:stop], ends_section=is_last or is_before_pause)
            self._offsets_of_words.skip(len(text) - stop)
        return items

    def flush(self) -> list[PlanItem]:
        """End segment and section here, if they have begun; raises as `push` does."""
        items = self.push("", is_last=True)
        self._begin_section()
        return items

    def finish(self) -> list[PlanItem]:
        """End the text; raises InvalidRequestError."""
        items = self.flush()
        if self._num_segments == 0 and not self._is_answer:
            if not self._sent.strip():
                raise InvalidRequestError("Input text cannot be empty.", param="input")
            sent = " ".join(each for each in split_pauses(self._sent) if isinstance(each, str))
            raise UnspeakableTextError(tuple(self.unspoken or sent.split()[:_MAX_SHOWN_WORDS]))
        return items

    def cut(self) -> None:
        """End the segment that has begun, without the rest of its text."""
        if self._segment is not None:
            self._segment.text.close()

    def whole(self, text: str) -> list[PlanItem]:
        """Plan a text that is there from the beginning; raises as `finish` does."""
        starts = range(0, len(text), _MAX_CHARACTERS_AT_ONCE)
        pieces = (text[start : start + _MAX_CHARACTERS_AT_ONCE] for start in starts)
        return [item for piece in pieces for item in self.push(piece)] + self.finish()

    def placed(self, segment: Segment, words: Iterable[WordTime]) -> tuple[WordTime, ...]:
        """Return words of a segment as those of the text as sent, several read for one as one."""
        found: list[WordTime] = []
        for word in words:
            start, stop = self._origin(segment.offset + word.offset, segment.offset + word.stop)
            start = min(max(start, self._last_offset), stop)
            sent = self._sent[start:stop]
            start, stop = stop - len(sent.lstrip()), start + len(sent.rstrip())
            read = word.read or word.word
            if found and start < found[-1].stop:
                last = found.pop()
                start, stop = last.offset, max(last.stop, stop)
                word, read = replace(word, start_s=last.start_s), f"{last.read} {read}"
            if start < stop:
                sent = self._sent[start:stop]
                found.append(WordTime(sent, word.start_s, word.end_s, start, read))
        self._last_offset = found[-1].stop if found else self._last_offset
        return tuple(found)

    def _origin(self, start: int, stop: int) -> tuple[int, int]:
        """Return the range of the text as sent that a range of the text that is read stands for."""
        for offsets in (self._offsets_of_written, self._offsets_of_words, self._pauses.offsets):
            start, stop = offsets.origin(start, stop)
        return start, stop

    def _begin_section(self) -> None:
        self._words = WordReplacer(self._pronunciations, self._offsets_of_words)
        new = self._new_normalizer
        self._normalizer = new(self._offsets_of_written) if new else None

    def _without_spaces_after_pause(self, piece: str) -> str:
        if not self._follows_pause:
            return piece
        text = piece.lstrip()
        self._offsets_of_words.skip(len(piece) - len(text))
        self._follows_pause = not text
        return text

    def _read(self, text: str, *, ends_section: bool) -> list[PlanItem]:
        """Exchange words, write numbers out, and cut what is read."""
        limit = min(self._max_characters, MAX_GROWTH * len(self._sent) + _MIN_ROOM_CHARACTERS)
        written: list[str] = []
        num_characters = self._num_read
        for word in self._words.push(text, is_last=ends_section):
            written.append(word)
            num_characters += len(word)
            if num_characters > limit:
                raise InputTooLongError(num_characters, limit)
        text = "".join(written)
        if self._normalizer is None:
            self._offsets_of_written.copy(len(text))
        else:
            text = self._normalizer.push(text, is_last=ends_section)
            self.unspoken += self._normalizer.unspoken if ends_section else ()
        self._num_read += len(text)
        if self._num_read > limit:
            raise InputTooLongError(self._num_read, limit)
        self._unplaced += text
        items = self._taken(self._segmenter.push(text))
        return [*items, *self._taken(self._segmenter.flush())] if ends_section else items

    def _taken(self, parts: list[Part]) -> list[PlanItem]:
        """Give parts to their segments; a segment begins with its first letter."""
        begun: list[PlanItem] = []
        place = 0
        for part in parts:
            place = after_spaces(self._unplaced, place)  # segmenters leave out nothing else
            text = part.text.strip() if self._strips else part.text
            if self._segment is None:
                if not part.text.strip():
                    continue
                offset = self._num_placed + place - after_spaces(text, 0)
                self._segment = Segment(self._num_segments, self._boundary, offset=offset)
                self._num_segments += 1
                begun.append(self._segment)
            place += len(part.text.strip())
            if text:
                self._segment.text.push(text)
            if part.ends_segment:
                self._segment.next_boundary = self._boundary = part.boundary
                self._segment.text.close()
                self._segment = None
        self._unplaced = self._unplaced[place:]
        self._num_placed += place
        return begun


def normalizer_of(
    request: SpeechRequest, capabilities: SpeechCapabilities
) -> Callable[[OffsetMap], Normalizer] | None:
    """Return what makes the normalizers of a request, or ``None`` if none is needed.

    A family that reads text in words by itself needs none, and there is none of other languages
    than English.
    """
    language = (request.language or "").strip().lower().replace("_", "-")
    is_english, words_only = language.split("-")[0] in _ENGLISH, capabilities.words_only
    if capabilities.writes_out or not is_english or not (request.normalize or words_only):
        return None
    british, is_known = language == "en-gb", language not in ("", "auto")
    return partial(Normalizer, british=british, is_english=is_known, words_only=words_only)
