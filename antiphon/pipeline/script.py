"""What is spoken and what is silent in a text: segments, each for a prompt, and what joins them.

Pauses are taken out first; then words are exchanged, then numbers written out; what is left is
split at paragraphs, at sentences and, where it must be, within them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum, auto

from antiphon.errors import InputTooLongError, InvalidRequestError
from antiphon.pipeline.normalization import normalized
from antiphon.pipeline.pauses import Pause, split_pauses
from antiphon.pipeline.pronunciation import Pronunciations
from antiphon.pipeline.text import paragraphs, segments
from antiphon.types import SpeechRequest

_SENTENCE_MARKS = ".!?…。！？"
_CLOSERS = "\"'”’»)]』」）"


class Joint(StrEnum):
    """What is between a segment and the one before it."""

    NONE = auto()  # it is the first after a pause, or at all
    WORD = auto()  # a sentence goes on
    SENTENCE = auto()
    PARAGRAPH = auto()


@dataclass(frozen=True, slots=True)
class Segment:
    """A text that one prompt can hold.

    Attributes:
        index: counts the segments of a script; with the request's seed, it makes the segment's.
        text: stripped and never empty.
        joint: to the segment before.
    """

    index: int
    text: str
    joint: Joint


@dataclass(frozen=True, slots=True)
class Passage:
    """Segments that are spoken as one, then silence of an exact length, possibly none."""

    segments: tuple[Segment, ...]
    pause_s: float = 0.0


Script = tuple[Passage, ...]


def write_script(
    request: SpeechRequest, pronunciations: Pronunciations, max_characters: int, limit: int
) -> Script:
    """Return what is to be spoken and when it is silent.

    Args:
        request: says what, and how words are to be read.
        pronunciations: those of the request and of the server.
        max_characters: of a segment.
        limit: of the text as it is read; exchanging words can make it longer.

    Raises:
        InvalidRequestError: a pause is wrong, there is nothing to speak, or it is too long.
    """
    passages: list[Passage] = []
    num_segments = num_characters = 0
    pieces = split_pauses(request.input)
    for piece in pieces:
        if isinstance(piece, Pause):
            last = passages.pop()
            passages.append(Passage(last.segments, last.pause_s + piece.duration_s))
            continue
        text = pronunciations.applied(piece)
        text = normalized(text) if request.normalize else text
        num_characters += len(text)
        passage = Passage(tuple(_segments(text, max_characters, num_segments)))
        num_segments += len(passage.segments)
        if passage.segments or not passages:  # what is blank between two pauses makes them one
            passages.append(passage)
    if num_segments == 0:
        raise InvalidRequestError("Input text cannot be empty.", param="input")
    if num_characters > limit:
        raise InputTooLongError(num_characters, limit)
    return tuple(passages)


def _segments(text: str, max_characters: int, first_index: int) -> Iterator[Segment]:
    index, joint = first_index, Joint.NONE
    for paragraph in paragraphs(text):
        for part in segments(paragraph, max_characters):
            yield Segment(index, part, joint)
            ended = part.rstrip(_CLOSERS)[-1:]
            joint = Joint.SENTENCE if ended and ended in _SENTENCE_MARKS else Joint.WORD
            index += 1
        joint = Joint.PARAGRAPH
