"""English text to phonemes, whatever the text; what cannot be read is left out, and reported."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from hibari.g2p import G2P
from hibari.g2p.normalize import normalize
from hibari.tts import ASSETS, MAX_PHONEMES, Hibari

from antiphon.models.base import TextCheck
from antiphon.models.hibari.unspoken import UnspokenFinder

# Reading time grows with the cube of a word's parts: a path of 400 characters would take seconds.
_LONG_WORD_PART = re.compile(r"(\S{32,63}[^\w\s]|\S{64})(?=\S)")
# The dictionary reads a currency before its number only.
_CURRENCY_LAST = re.compile(r"(?<![$€£¥₹\d.,])(\d(?:[\d.,]*\d)?) ?([$€£¥₹])(?![\w$€£¥₹])")
_CLAUSE_END = re.compile(r"(?<=[,;:—]) +")
_SPACE = re.compile(r" +")
_UNSPOKEN = frozenset(';:,.!?—…"“”() ˈˌ')
_MADE_UP_WORD = "zorblewick"


@dataclass(frozen=True, slots=True)
class ReadWord:
    """A word, and the phonemes of its sentence that belong to it: from where to before where."""

    word: str
    start: int
    stop: int


class Reader:
    """Reads text in one accent; safe to share between threads once it is built."""

    def __init__(self, *, british: bool) -> None:
        self._g2p = G2P(british=british)
        # Unknown words load a network on first use: now, while no other thread can do it too.
        self._g2p(_MADE_UP_WORD)
        vocabulary = Path(ASSETS, "vocab.json").read_text(encoding="utf-8")
        self._ids: dict[str, int] = json.loads(vocabulary)
        self._unspoken = UnspokenFinder(lambda text: self._pronounce(_readable(text)))

    def check(self, text: str) -> TextCheck:
        """Return what of a text has no reading."""
        return self._unspoken.check(_currency_first(text))

    def read(self, text: str) -> tuple[tuple[int, ...], ...]:
        """Return the phoneme ids of each sentence that has anything to pronounce.

        A sentence of more than ``MAX_PHONEMES`` is split, at a clause if it has one.
        """
        text = _readable(text)
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

    def read_words(self, text: str) -> tuple[tuple[ReadWord, ...], ...]:
        """Return the words of each of the sentences that `read` gives, and their places in it.

        Where words cannot be separated, there are none.
        """
        text = _readable(text)
        sentences: list[tuple[ReadWord, ...]] = []
        for sentence in Hibari.split_sentences(text):
            phonemes = self._pronounce(sentence)
            owners = self._owners(sentence, phonemes)
            for piece in split_phonemes(phonemes, MAX_PHONEMES):
                words = self._placed(piece, owners)
                if any(symbol in self._ids and symbol not in _UNSPOKEN for symbol in piece):
                    sentences.append(words)
        return tuple(sentences)

    def _owners(self, sentence: str, phonemes: str) -> Iterator[tuple[int, str]]:
        """Yield the number and the text of the word that each phoneme belongs to, without spaces.

        Nothing is yielded if the words' phonemes are not those of the sentence.
        """
        try:
            tokens = self._g2p.phonemize_tokens(self._g2p.tokenize(normalize(sentence)))
        except (LookupError, TypeError, ValueError):
            return iter(())
        words: list[tuple[str, str]] = [("", "")]
        for token in tokens:
            word, read = words[-1]
            words[-1] = word + token.text, read + (token.phonemes or "").replace(" ", "")
            if token.whitespace:
                words.append(("", ""))
        if "".join(read for _, read in words) != phonemes.replace(" ", ""):
            return iter(())
        return iter([(number, word) for number, (word, read) in enumerate(words) for _ in read])

    def _placed(self, piece: str, owners: Iterator[tuple[int, str]]) -> tuple[ReadWord, ...]:
        """Return the words of a piece by the places that their phonemes have among its ids."""
        placed: dict[tuple[int, str], tuple[int, int]] = {}
        place = 0
        for symbol in piece:
            owner = None if symbol == " " else next(owners, None)
            if symbol not in self._ids:
                continue
            if owner is not None and symbol not in _UNSPOKEN:
                start, _ = placed.get(owner, (place, place))
                placed[owner] = start, place + 1
            place += 1
        return tuple(ReadWord(word, start, stop) for (_, word), (start, stop) in placed.items())

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


def _readable(text: str) -> str:
    """Return a text with currencies before their numbers, and long words in parts."""
    return _LONG_WORD_PART.sub(r"\1 ", _currency_first(text))


def _currency_first(text: str) -> str:
    return _CURRENCY_LAST.sub(r"\2\1", text)


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
