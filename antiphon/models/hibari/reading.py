"""English text to phonemes, whatever the text: what cannot be read is left out, never an error."""

import json
import re
from functools import lru_cache
from pathlib import Path

from hibari.g2p import G2P
from hibari.tts import ASSETS, MAX_PHONEMES, Hibari

# Reading time grows with the cube of a word's parts: a path of 400 characters would take seconds.
_LONG_WORD_PART = re.compile(r"(\S{32,63}[^\w\s]|\S{64})(?=\S)")
_CLAUSE_END = re.compile(r"(?<=[,;:—]) +")
_SPACE = re.compile(r" +")
_UNSPOKEN = frozenset(';:,.!?—…"“”() ˈˌ')
_MADE_UP_WORD = "zorblewick"


class Reader:
    """Reads text in one accent; safe to share between threads once it is built."""

    def __init__(self, *, british: bool) -> None:
        self._g2p = G2P(british=british)
        # Unknown words load a network on first use: now, while no other thread can do it too.
        self._g2p(_MADE_UP_WORD)
        vocabulary = Path(ASSETS, "vocab.json").read_text(encoding="utf-8")
        self._ids: dict[str, int] = json.loads(vocabulary)

    def read(self, text: str) -> tuple[tuple[int, ...], ...]:
        """Return the phoneme ids of each sentence that has anything to pronounce.

        A sentence of more than ``MAX_PHONEMES`` is split, at a clause if it has one.
        """
        text = _LONG_WORD_PART.sub(r"\1 ", text)
        readings = (
            piece
            for sentence in Hibari.split_sentences(text)
            for piece in split_phonemes(self._pronounce(sentence), MAX_PHONEMES)
        )
        return tuple(
            tuple(self._ids[symbol] for symbol in reading if symbol in self._ids)
            for reading in readings
            if any(symbol in self._ids and symbol not in _UNSPOKEN for symbol in reading)
        )

    def _pronounce(self, text: str) -> str:
        """Phonemes of ``text``; where the dictionary fails (vast numbers), of its parts."""
        try:
            return str(self._g2p(text))
        except (LookupError, TypeError, ValueError):
            words = text.split()
            parts = words if len(words) > 1 else list(words[0]) if words else []
            if len(parts) < 2:
                return ""
            return " ".join(filter(None, map(self._pronounce, parts)))


@lru_cache(maxsize=2)
def reader(*, british: bool) -> Reader:
    """Return this process's reader for an accent: its dictionaries are loaded once."""
    return Reader(british=british)


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
