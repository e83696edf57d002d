"""English text to phonemes, whatever the text; what cannot be read is left out, and reported."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import lru_cache

from hibari.g2p import G2P
from hibari.g2p.normalize import normalize
from hibari.tts import Hibari

from antiphon.contracts.prompt import TextCheck
from antiphon.text.base import ReadWord, ids_of, place_words, split_phonemes
from antiphon.text.unspoken import UnspokenFinder

# Reading time grows with the cube of a word's parts: a path of 400 characters would take seconds.
_LONG_WORD_PART = re.compile(r"(\S{32,63}[^\w\s]|\S{64})(?=\S)")
# The dictionary reads a currency before its number only.
_CURRENCY_LAST = re.compile(r"(?<![$€£¥₹\d.,])(\d(?:[\d.,]*\d)?) ?([$€£¥₹])(?![\w$€£¥₹])")
_CASED = ("Lu", "Ll", "Lt")
_KNOWN_SCRIPTS = ("LATIN", "GREEK")
_WORD_BREAK = "\u200b"
_MADE_UP_WORD = "zorblewick"


class EnglishReader:
    """Reads text in one accent; safe to share between threads once it is built."""

    def __init__(self, ids: Mapping[str, int], *, british: bool, max_phonemes: int) -> None:
        """Load the dictionaries of an accent, unless this process has them.

        Args:
            ids: of the phonemes that the network knows.
            british: the accent; otherwise American.
            max_phonemes: of a sentence; longer ones are split.
        """
        self._g2p = _g2p(british)
        self._ids = ids
        self._max_phonemes = max_phonemes
        self._unspoken = UnspokenFinder(self.pronounce)

    def check(self, text: str) -> TextCheck:
        """Return what of a text has no reading."""
        return self._unspoken.check(_currency_first(text))

    def read(self, text: str) -> tuple[tuple[int, ...], ...]:
        """Return the phoneme ids of each sentence that has anything to pronounce.

        A sentence of too many phonemes is split, at a clause if it has one.
        """
        text = _readable(text)
        readings = (
            piece
            for sentence in Hibari.split_sentences(text)
            for piece in split_phonemes(self._pronounce(sentence), self._max_phonemes)
        )
        return tuple(ids for reading in readings if (ids := ids_of(reading, self._ids)))

    def read_words(self, text: str) -> tuple[tuple[ReadWord, ...], ...]:
        """Return the words of each of the sentences that `read` gives, and their places in it.

        Where words cannot be separated, there are none.
        """
        text = _readable(text)
        sentences: list[tuple[ReadWord, ...]] = []
        for sentence in Hibari.split_sentences(text):
            phonemes = self._pronounce(sentence)
            owners = self._owners(sentence, phonemes)
            for piece in split_phonemes(phonemes, self._max_phonemes):
                words = place_words(piece, owners, self._ids)
                if ids_of(piece, self._ids):
                    sentences.append(words)
        return tuple(sentences)

    def pronounce(self, text: str) -> str:
        """Return the phonemes of a text that is one sentence or less."""
        return self._pronounce(_readable(text))

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
    """Return a text in plain letters, currencies before their numbers, and long words in parts."""
    plain = text if text.isascii() else "".join(map(_plain, text))
    return _LONG_WORD_PART.sub(r"\1 ", _currency_first(plain))


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    """Return what is read for a character that the dictionary knows in another form only.

    A letter in a style of its own (full width, bold, a ligature) is that letter. Others with
    capitals than Latin and Greek ones are left out: some of them the dictionary would take for
    names of letters, and make a noise of the word. Marks of format (byte order, soft hyphens)
    are no part of a word.
    """
    category = unicodedata.category(character)
    if category == "Cf":
        return " " if character == _WORD_BREAK else ""
    if category not in _CASED or character.isascii():
        return character
    plain = unicodedata.normalize("NFKC", character)
    if plain.isascii():
        return plain
    return character if unicodedata.name(plain[0], "").startswith(_KNOWN_SCRIPTS) else " "


def _currency_first(text: str) -> str:
    return _CURRENCY_LAST.sub(r"\2\1", text)


@lru_cache(maxsize=2)
def _g2p(british: bool) -> G2P:
    """Return this process's dictionaries of an accent."""
    found = G2P(british=british)
    # Unknown words load a network on first use: now, while no other thread can do it too.
    found(_MADE_UP_WORD)
    return found
