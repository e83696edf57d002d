"""Text to the symbols that a voice knows: espeak-ng's phonemes for English, or the text itself.

espeak-ng is not used. English is read by the dictionaries that other families read it by; their
phonemes are then written as espeak-ng would write them.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

from sentencex import segment

from antiphon.contracts.prompt import TextCheck
from antiphon.errors import ModelLoadError
from antiphon.families.piper.voice_files import (
    BEGIN,
    END,
    PAD,
    PiperModel,
    is_english,
    unread_language,
)
from antiphon.text.base import ReadWord, split_phonemes
from antiphon.text.english import EnglishReader

MAX_SYMBOLS = 400
"""Of a sentence: longer ones are split, since a network's memory grows with their square."""

_SAME = "bdfhjklmnpstvwzðŋɐɑəɚɛɡɪɹʃʊʌʒθæɒ ˈˌː;:,.!?"
_WRITTEN = {
    **{symbol: symbol for symbol in _SAME},
    **{"A": "eɪ", "I": "aɪ", "O": "oʊ", "Q": "əʊ", "W": "aʊ", "Y": "ɔɪ"},
    **{"ʤ": "dʒ", "ʧ": "tʃ", "T": "ɾ", "ᵊ": "ə", "ᵻ": "ᵻ", "ɾ": "ɾ", "ʔ": "ʔ", "x": "x"},
    **{"a": "a", "i": "i", "u": "uː", "ɔ": "ɔː", "ɜ": "ɜː", "—": ",", "…": ".", "“": '"', "”": '"'},
}
"""Replacement of each dictionary symbol, where its neighbours do not require another."""
_READ_IDS = {symbol: place for place, symbol in enumerate(_WRITTEN)}
_SYMBOLS = tuple(_WRITTEN)
_VOWELS = frozenset("AIOQWYaiuæɐɑɒɔəɚɛɜɪʊʌᵊᵻ")
_BEFORE_VOWEL = re.compile(rf"[ ˈˌ]*[{''.join(sorted(_VOWELS))}]")
"""What follows an ``ɹ`` that is linked to the next vowel, across the end of a word as well."""
_WRITTEN_R = re.compile(r"re?$", re.IGNORECASE)
_REQUIRED = frozenset("bdfhjklmnpstvwzðŋɑəɛɡɪɹʃʊʌʒθæaeoiuˈˌː")
"""Symbols that English requires."""


@dataclass(frozen=True, slots=True)
class SymbolSequence:
    """A sentence as a network reads it.

    Attributes:
        ids: symbol ids, with padding, beginning and end.
        words: and where they are among the ids; empty if it is not known.
    """

    ids: tuple[int, ...]
    words: tuple[ReadWord, ...] = ()


class Phonemizer(Protocol):
    """Reads text for one voice; may be called from any thread."""

    def check(self, text: str) -> TextCheck:
        """Return the parts of a text that are left out."""

    def read(self, text: str) -> tuple[SymbolSequence, ...]:
        """Return the sentences of a text that have anything to pronounce."""


def phonemizer_of(model: PiperModel) -> Phonemizer:
    """Return the text reader of a voice; raises ModelLoadError."""
    if model.phoneme_type == "text":
        return TextPhonemizer(model)
    if not is_english(model):
        raise ModelLoadError(unread_language(model))
    missing = sorted(_REQUIRED - set(model.ids))
    if missing:
        raise ModelLoadError(
            f"{model.network}.json: 'phoneme_id_map' lacks what English needs: {' '.join(missing)}"
        )
    return EnglishPhonemizer(model)


class EnglishPhonemizer:
    """Reads English in a voice's accent."""

    def __init__(self, model: PiperModel) -> None:
        british = not model.espeak_voice.lower().startswith("en-us")
        self._ids = model.ids
        self._is_british = british
        self._reader = EnglishReader(_READ_IDS, british=british, max_phonemes=MAX_SYMBOLS)

    def check(self, text: str) -> TextCheck:
        return self._reader.check(text)

    def read(self, text: str) -> tuple[SymbolSequence, ...]:
        words = self._reader.read_words(text)
        return tuple(
            self._sequence("".join(_SYMBOLS[number] for number in numbers), placed)
            for numbers, placed in zip(self._reader.read(text), words, strict=True)
        )

    def _sequence(self, read: str, words: Sequence[ReadWord]) -> SymbolSequence:
        written = written_as_ipa(read, is_british=self._is_british)
        if self._is_british:
            for place in _linked(read, words):
                written[place] += "ɹ"
        ids, places = sequence_ids(written, self._ids)
        placed = (replace(each, start=places[each.start], stop=places[each.stop]) for each in words)
        return SymbolSequence(ids, tuple(placed))


class TextPhonemizer:
    """Gives a network the letters themselves, for voices that were trained on those."""

    def __init__(self, model: PiperModel) -> None:
        self._ids = model.ids
        self._language = (model.language_code or model.espeak_voice or "en").lower()[:2]

    def check(self, text: str) -> TextCheck:
        letters = [each for each in _letters(text, self._ids) if each.strip()]
        unknown = [each for each in letters if each not in self._ids and each.isalnum()]
        is_spoken = any(each in self._ids and each.isalnum() for each in letters)
        return TextCheck(tuple(dict.fromkeys(unknown)), is_spoken)

    def read(self, text: str) -> tuple[SymbolSequence, ...]:
        sentences = (sentence.strip() for sentence in segment(self._language, text))
        pieces = [piece for each in sentences for piece in split_phonemes(each, MAX_SYMBOLS)]
        # A split changes nothing but spaces.
        places = (place for place, each in enumerate(text) if not each.isspace())
        return tuple(
            self._sequence(piece, offsets)
            for piece in pieces
            if (offsets := [*islice(places, sum(not each.isspace() for each in piece))])
            and self.check(piece).is_spoken
        )

    def _sequence(self, text: str, offsets: Sequence[int]) -> SymbolSequence:
        """Return the symbols of a sentence, given the offsets of its characters but for spaces."""
        entries = ["".join(_letters(each, self._ids)) for each in text]
        ids, places = sequence_ids(entries, self._ids)
        words, num_before = list[ReadWord](), 0
        for match in re.finditer(r"\S+", text):
            start, stop = (places[each] for each in match.span())
            words.append(ReadWord(match.group(), offsets[num_before], start, stop))
            num_before += len(match.group())
        return SymbolSequence(ids, tuple(words))


def sequence_ids(
    symbols: Sequence[str], ids: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids of a sentence, and the place of each entry's ids, with the end as the last.

    Padding stands behind the beginning and behind each symbol. What a voice does not know is left
    out. An entry has any number of symbols.
    """
    found = [*ids[BEGIN], *ids[PAD]]
    places = []
    for entry in symbols:
        places.append(len(found))
        for symbol in entry:
            if symbol in ids:
                found += [*ids[symbol], *ids[PAD]]
    places.append(len(found))
    return (*found, *ids[END]), tuple(places)


def written_as_ipa(read: str, *, is_british: bool) -> list[str]:
    """Return how espeak-ng writes each of the symbols of a sentence, ``""`` where it writes none.

    An American reading has no lengths, two symbols for ``ɚ`` and for the vowel of "bird", a weak
    stress on words of one syllable, and no glottal stop in "button".
    """
    written = [_WRITTEN[symbol] for symbol in read]
    if is_british:  # the lengths of these are written
        return [
            symbol if symbol in "iuɔɜ" else each for symbol, each in zip(read, written, strict=True)
        ]
    for match in re.finditer(r"[^ ]+", read):
        word, start = match.group(), match.start()
        is_short = sum(symbol in _VOWELS for symbol in word) == 1
        for place, symbol in enumerate(word, start):
            before, after = read[max(0, place - 1) : place], read[place + 1 : place + 2]
            if symbol in "əɜ" and after == "ɹ":
                linked = "ɹ" if _BEFORE_VOWEL.match(read, place + 2) else ""
                written[place : place + 2] = ["ɚ" if symbol == "ə" else "ɜː", linked]
            elif symbol == "ʊ" and after == "ɹ" and _BEFORE_VOWEL.match(word, place + 2 - start):
                written[place + 1] = "ɹɹ"
            elif symbol == "ɑ" or (symbol == "i" and (is_short or before in ("ˈ", "ˌ"))):
                written[place] = f"{symbol}ː"
            elif symbol == "ˌ" and is_short:
                written[place] = ""
            elif symbol == "t" and after == "n" and read[place + 2 : place + 3] not in _VOWELS:
                written[place : place + 2] = ["ʔ", "n\u0329"]
    return written


def _linked(read: str, words: Sequence[ReadWord]) -> Iterator[int]:
    """Yield the last symbols of words that end in a written "r" and link it to the next word.

    British dictionaries have no such ``ɹ``: it is pronounced before a vowel only.
    """
    for word in words:
        is_open = read[word.stop - 1] in _VOWELS | {"ː"}
        if is_open and _WRITTEN_R.search(word.word) and _BEFORE_VOWEL.match(read, word.stop):
            yield word.stop - 1


def _letters(text: str, ids: Mapping[str, tuple[int, ...]]) -> list[str]:
    """Return the characters of a text as a voice knows them: in training, accents were apart."""
    letters: list[str] = []
    for character in text:
        apart = unicodedata.normalize("NFD", character)
        spellings = (apart, apart.casefold(), character, character.casefold())
        known = (each for each in spellings if all(letter in ids for letter in each))
        letters += next(known, apart)
    return letters
