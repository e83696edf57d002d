"""Interface of a language's reader, which turns any text into sentences of phonemes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from antiphon.contracts.prompt import TextCheck

SentenceIds: TypeAlias = tuple[int, ...]
"""Ids of a sentence's phonemes, never empty, without padding."""

_STRESS = frozenset("ˈˌ")
_MARKS = frozenset(';:,.!?—…"“”() ')
UNSPOKEN_PHONEMES = _MARKS | _STRESS
"""Phoneme symbols without a sound."""

_CLAUSE_END = re.compile(r"(?<=[,;:—]) +")
_SPACE = re.compile(r" +")


Owner: TypeAlias = tuple[int, str]
"""Word of a phoneme: its number and its text."""


@dataclass(frozen=True, slots=True)
class ReadWord:
    """Word and the range of its phonemes in the sentence.

    Attributes:
        word: word as written in the text.
        start: index of its first phoneme.
        stop: index after its last phoneme.
    """

    word: str
    start: int
    stop: int


class TextReader(Protocol):
    """Reader of text in one language; may be called from any thread."""

    def check(self, text: str) -> TextCheck:
        """Return the parts of a text that have no reading."""
        ...

    def read(self, text: str) -> tuple[SentenceIds, ...]:
        """Return the phonemes of each sentence that has anything to pronounce."""
        ...

    def read_words(self, text: str) -> tuple[tuple[ReadWord, ...], ...]:
        """Return the words of each sentence of `read`, and their places in it."""
        ...


def ids_of(phonemes: str, ids: Mapping[str, int]) -> SentenceIds:
    """Return the ids of phonemes; none if nothing among them can be pronounced."""
    known = [symbol for symbol in phonemes if symbol in ids]
    if UNSPOKEN_PHONEMES.issuperset(known):
        return ()
    return tuple(ids[symbol] for symbol in known)


def place_words(
    phonemes: str, owners: Iterator[Owner], ids: Mapping[str, int]
) -> tuple[ReadWord, ...]:
    """Return words with the places of their phonemes among the ids of `ids_of`.

    Args:
        phonemes: phonemes of a sentence, or of its next part.
        owners: word of each phoneme, without spaces; those of this part are consumed.
        ids: ids of the phonemes that the network knows.
    """
    placed: dict[Owner, tuple[int, int]] = {}
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
    return tuple(ReadWord(word, start, stop) for (_, word), (start, stop) in placed.items())


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
