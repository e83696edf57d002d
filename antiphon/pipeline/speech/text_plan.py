"""What is spoken and what is silent in a text: segments, each for a prompt, and what joins them.

Pauses are taken out first; then words are exchanged, then numbers written out; what is left is
split if it does not fit one prompt.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

from antiphon.errors import InputTooLongError, InvalidRequestError
from antiphon.pipeline.speech.normalization import normalized
from antiphon.pipeline.speech.pauses import Pause, split_pauses
from antiphon.pipeline.speech.pronunciation import Pronunciations
from antiphon.pipeline.speech.segmenter import late_segments
from antiphon.pipeline.speech.text import Boundary, Slice, segments
from antiphon.types import SpeechRequest

MAX_GROWTH = 10
"""A text may be so many times as long when words have been exchanged and numbers written out."""
_MIN_ROOM_CHARACTERS = 10_000


@dataclass(frozen=True, slots=True)
class Segment:
    """A text that one prompt can hold.

    Attributes:
        index: counts the segments of a script; with the request's seed, it makes the segment's.
        text: a slice of what is read, never blank.
        joint: to the segment before.
    """

    index: int
    text: str
    joint: Boundary


@dataclass(frozen=True, slots=True)
class Section:
    """Segments that are spoken as one, then silence of an exact length, possibly none."""

    segments: tuple[Segment, ...]
    pause_s: float = 0.0


Script = tuple[Section, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextLimits:
    """How long texts and segments may be.

    Attributes:
        segment_characters: that are surely one segment, as a model's `SpeechCapabilities` say.
        reads_late: whether text is cut where it would be cut if it came late.
        num_characters: of the text as it is read.
    """

    segment_characters: int
    reads_late: bool = False
    num_characters: int = sys.maxsize

    def split(self, text: str) -> Iterator[Slice]:
        """Split what does not fit one segment."""
        split = late_segments if self.reads_late else segments
        return split(text, self.segment_characters)


def plan_text(request: SpeechRequest, pronunciations: Pronunciations, limits: TextLimits) -> Script:
    """Return what is to be spoken and when it is silent.

    Args:
        request: says what, and how words are to be read.
        pronunciations: those of the request and of the server.
        limits: exchanging words can make a text longer.

    Raises:
        InvalidRequestError: a pause is wrong, there is nothing to speak, or it is too long.
    """
    passages: list[Section] = []
    num_segments = num_characters = 0
    limit = min(limits.num_characters, MAX_GROWTH * len(request.input) + _MIN_ROOM_CHARACTERS)
    for piece in _trimmed(split_pauses(request.input)):
        if isinstance(piece, Pause):
            last = passages.pop()
            passages.append(Section(last.segments, last.pause_s + piece.duration_s))
            continue
        text = pronunciations.applied(piece, limit)
        text = normalized(text) if request.normalize else text
        num_characters += len(text)
        if num_characters > limit:
            raise InputTooLongError(num_characters, limit)
        slices = enumerate(limits.split(text), num_segments)
        found = tuple(Segment(index, each.text, each.joint) for index, each in slices)
        num_segments += len(found)
        if found or not passages:  # what is blank between two pauses makes them one
            passages.append(Section(found))
    if num_segments == 0:
        raise InvalidRequestError("Input text cannot be empty.", param="input")
    return tuple(passages)


def _trimmed(pieces: list[str | Pause]) -> Iterator[str | Pause]:
    """Take away the spaces beside pauses; a text without any is left as it is."""
    for place, piece in enumerate(pieces):
        if isinstance(piece, Pause):
            yield piece
            continue
        text = piece.lstrip() if place > 0 else piece
        yield text.rstrip() if place < len(pieces) - 1 else text
