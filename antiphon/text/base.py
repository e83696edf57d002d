"""What a reader of one language is: text becomes sentences of phonemes, and nothing raises."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from antiphon.contracts.prompt import TextCheck

SentenceIds: TypeAlias = tuple[int, ...]
"""Ids of a sentence's phonemes, never empty, without padding."""

UNSPOKEN_PHONEMES = frozenset(';:,.!?—…"“”() ˈˌ')
"""Symbols among phonemes that have no sound of their own."""

_CLAUSE_END = re.compile(r"(?<=[,;:—]) +")
_SPACE = re.compile(r" +")


Owner: TypeAlias = tuple[int, str, int | None]
"""The word that a phoneme belongs to: its number, itself, and its offset in the text."""


@dataclass(frozen=True, slots=True)
class ReadWord:
    """A word, and the phonemes of its sentence that belong to it: from where to before where.

    Attributes:
        word: the word, as it is in the text.
        start: its first phoneme.
        stop: the phoneme behind its last one.
        offset: offset of its first character in the text; ``None`` if that is not known.
    """

    word: str
    start: int
    stop: int
    offset: int | None = None


class TextReader(Protocol):
    """Reads text in one language; may be called from any thread."""

    def check(self, text: str) -> TextCheck:
        """Return what of a text has no reading."""
        ...

    def read(self, text: str) -> tuple[SentenceIds, ...]:
        """Return the phonemes of each sentence that has anything to pronounce."""
        ...

    def read_words(self, text: str) -> tuple[tuple[ReadWord, ...], ...]:
        """Return the words of each of the sentences that `read` gives, and their places in it."""
        ...


def ids_of(phonemes: str, ids: Mapping[str, int]) -> SentenceIds:
    """Return the ids of phonemes; none if there is nothing to pronounce among them."""
    known = [symbol for symbol in phonemes if symbol in ids]
    if UNSPOKEN_PHONEMES.issuperset(known):
        return ()
    return tuple(ids[symbol] for symbol in known)


def place_words(
    phonemes: str, owners: Iterator[Owner], ids: Mapping[str, int]
) -> tuple[ReadWord, ...]:
    """Return words by the places that their phonemes have among the ids of `ids_of`.

    Args:
        phonemes: of a sentence, or of its next part.
        owners: word that each phoneme belongs to, without spaces; those of this part are taken
            from it.
        ids: of the phonemes that the network knows.
    """
    placed: dict[Owner, tuple[int, int]] = {}
    place = 0
    for symbol in phonemes:
        owner = None if symbol == " " else next(owners, None)
        if symbol not in ids:
            continue
        if owner is not None and symbol not in UNSPOKEN_PHONEMES:
            start, _ = placed.get(owner, (place, place))
            placed[owner] = start, place + 1
        place += 1
    return tuple(
        ReadWord(word, start, stop, offset) for (_, word, offset), (start, stop) in placed.items()
    )


def split_phonemes(phonemes: str, max_phonemes: int) -> list[str]:
    """Split at clause ends, else at spaces, else anywhere; every piece as long as it may be."""
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
