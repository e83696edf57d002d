"""Interface of a language's reader, which turns any text into sentences of phonemes."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from antiphon.contracts.prompt import TextCheck
from antiphon.contracts.types import WordTime
from antiphon.text.tokens import SpokenPiece

SentenceIds: TypeAlias = tuple[int, ...]
"""Ids of a sentence's phonemes, never empty, without padding."""

_STRESS = frozenset("ˈˌ")
_MARKS = frozenset(';:,.!?—…"“”() ')
UNSPOKEN_PHONEMES = _MARKS | _STRESS
"""Phoneme symbols without a sound."""

# To free the tokens of a long text at once would hold the interpreter's lock for over 5 ms.
_MAX_STRETCH_CHARACTERS = 5000
_CLAUSE_END = re.compile(r"(?<=[,;:—]) +")
_SPACE = re.compile(r" +")


Span: TypeAlias = tuple[int, int]
"""First offset of a run of characters, and the one after its last."""


@dataclass(frozen=True, slots=True)
class ReadWord:
    """Word and the range of its phonemes in the sentence.

    Attributes:
        offset: offset of its first character in the text.
        start: index of its first phoneme.
        stop: index after its last phoneme.
        read: words that are spoken for it; empty if they are ``word``.
    """

    word: str
    offset: int
    start: int
    stop: int
    read: str = ""

    def timed(self, start_s: float, end_s: float) -> WordTime:
        return WordTime(self.word, start_s, end_s, self.offset, self.read)


class TextReader(Protocol):
    """Reader of text in one language; may be called from any thread."""

    def check(self, text: str) -> TextCheck:
        """Return the parts of a text that have no reading."""

    def read(self, text: str) -> tuple[SentenceIds, ...]:
        """Return the phonemes of each sentence that has anything to pronounce."""

    def read_words(self, text: str) -> tuple[tuple[ReadWord, ...], ...]:
        """Return the words of each sentence of `read`, and their places in it."""


def ids_of(phonemes: str, ids: Mapping[str, int]) -> SentenceIds:
    """Return the ids of phonemes; none if nothing among them can be pronounced."""
    known = [symbol for symbol in phonemes if symbol in ids]
    if UNSPOKEN_PHONEMES.issuperset(known):
        return ()
    return tuple(ids[symbol] for symbol in known)


def place_words(
    text: str,
    readings: Mapping[Span, str],
    phonemes: str,
    owners: Iterator[Span],
    ids: Mapping[str, int],
) -> tuple[ReadWord, ...]:
    """Return words with the places of their phonemes among the ids of `ids_of`.

    Args:
        readings: words spoken for each word of the text.
        phonemes: phonemes of a sentence, or of its next part.
        owners: word of each phoneme, without spaces; those of this part are consumed.
        ids: ids of the phonemes that the network knows.
    """
    placed: dict[Span, Span] = {}
    place = 0
    for symbol in phonemes:
        owner = None if symbol == " " else next(owners, None)
        if symbol not in ids:
            continue
        # The network begins a word with its stress mark: that time is no pause.
        if owner is not None and symbol not in _MARKS:
            start, _ = placed.get(owner, (place, place))
            placed[owner] = start, place + 1
        place += 1
    return tuple(
        ReadWord(text[slice(*span)], span[0], start, stop, readings[span].strip())
        for span, (start, stop) in placed.items()
    )


@dataclass(frozen=True, slots=True)
class ReadSentence:
    """Sentence as read.

    Attributes:
        owners: word of each phoneme, without spaces.
        readings: words spoken for each word of the text.
    """

    phonemes: str
    owners: tuple[Span, ...]
    readings: Mapping[Span, str]


class PhonemeReader(ABC):
    """Reader that gives each phoneme to a word of the text."""

    def __init__(self, ids: Mapping[str, int], max_phonemes: int) -> None:
        """Prepare to read.

        Args:
            ids: ids of the phonemes that the network knows.
            max_phonemes: phonemes above which a sentence is split, at a clause if possible.
        """
        self._ids = ids
        self._max_phonemes = max_phonemes

    @abstractmethod
    def _sentences(self, text: str) -> Iterator[ReadSentence]:
        """Yield the sentences of a text."""

    def read(self, text: str) -> tuple[SentenceIds, ...]:
        """See `TextReader.read`."""
        return tuple(
            ids
            for sentence in self._sentences(text)
            for piece in split_phonemes(sentence.phonemes, self._max_phonemes)
            if (ids := ids_of(piece, self._ids))
        )

    def read_words(self, text: str) -> tuple[tuple[ReadWord, ...], ...]:
        """See `TextReader.read_words`; words are those of the text, not of its reading."""
        found: list[tuple[ReadWord, ...]] = []
        for sentence in self._sentences(text):
            owners = iter(sentence.owners)
            for piece in split_phonemes(sentence.phonemes, self._max_phonemes):
                words = place_words(text, sentence.readings, piece, owners, self._ids)
                if ids_of(piece, self._ids):
                    found.append(words)
        return tuple(found)

    def pronounce(self, text: str) -> str:
        return " ".join(sentence.phonemes for sentence in self._sentences(text))


def judged_text(
    text: str, pieces_of: Callable[[str], Iterable[SpokenPiece]], silent: Container[str] = ()
) -> str:
    """Return a text as checked for omissions: what a rule has read counts as spoken.

    Args:
        text: text of any length, read in stretches.
        pieces_of: function that returns the pieces of a stretch.
        silent: texts that are left out although a rule has read them.
    """
    stretches: list[str] = []
    start = 0
    while start < len(text):
        stop = start + _MAX_STRETCH_CHARACTERS
        if stop < len(text):
            stop = max(text.rfind(" ", start, stop), text.rfind("\n", start, stop)) + 1 or stop
        stretch, start = text[start:stop], stop
        parts: list[str] = []
        for piece in pieces_of(stretch):
            original = stretch[piece.start : piece.stop]
            if piece.is_changed:
                is_spoken = any(map(str.isalnum, piece.words))
                original = "a" if is_spoken else original if original in silent else " "
            parts.append(original)
        stretches.append("".join(parts))
    return "".join(stretches)


def split_phonemes(phonemes: str, max_phonemes: int) -> list[str]:
    """Split at clause ends, else at spaces, else anywhere, into pieces of maximum length."""
    return _split(phonemes, max_phonemes, (_CLAUSE_END, _SPACE))


def _split(phonemes: str, max_phonemes: int, borders: tuple[re.Pattern[str], ...]) -> list[str]:
    if len(phonemes) <= max_phonemes:
        return [phonemes]
    if not borders:
        starts = range(0, len(phonemes), max_phonemes)
        return [phonemes[start : start + max_phonemes] for start in starts]
    packed: list[str] = []
    for part in borders[0].split(phonemes):
        for piece in _split(part, max_phonemes, borders[1:]):
            if packed and len(packed[-1]) + 1 + len(piece) <= max_phonemes:
                packed[-1] += " " + piece
            else:
                packed.append(piece)
    return packed
