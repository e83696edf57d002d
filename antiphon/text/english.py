"""English text to phonemes; parts that cannot be read are left out and reported."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hibari.g2p import G2P

from antiphon.contracts.prompt import TextCheck
from antiphon.text.base import Owner, ReadWord, ids_of, place_words, split_phonemes
from antiphon.text.homographs import respell
from antiphon.text.tokens import SpokenPiece, TokenizedText
from antiphon.text.unspoken import UnspokenFinder
from antiphon.text.written_out import SILENT_SIGNS, pieces_of, spoken_text

# Reading time grows with the cube of a word's parts: a path of 400 characters would take seconds.
_MAX_RUN_CHARACTERS = 64
_MADE_UP_WORD = "zorblewick"
_NAME_OF_A = "\u02c8A"
_CERTAIN = 5


@dataclass(frozen=True, slots=True)
class _Sentence:
    """Sentence as read by the dictionary.

    Attributes:
        phonemes: phonemes of the sentence.
        owners: word of each phoneme, without spaces.
    """

    phonemes: str
    owners: tuple[Owner, ...]


class EnglishReader:
    """Reader of one accent; thread-safe once built."""

    def __init__(self, ids: Mapping[str, int], *, british: bool, max_phonemes: int) -> None:
        """Load the dictionaries of an accent, once per process.

        Args:
            ids: ids of the phonemes that the network knows.
            british: whether the accent is British rather than American.
            max_phonemes: phonemes above which a sentence is split.
        """
        self._g2p = _g2p(british)
        self._british = british
        self._ids = ids
        self._max_phonemes = max_phonemes
        self._unspoken = UnspokenFinder(self.pronounce)

    def check(self, text: str) -> TextCheck:
        """Return the parts of a text that have no reading."""
        if text.isascii() and text.replace(" ", "").isalnum():
            return TextCheck((), is_spoken=True)
        pieces = pieces_of(TokenizedText(text, british=self._british))
        return self._unspoken.check("".join(_judged(piece, text) for piece in pieces))

    def read(self, text: str) -> tuple[tuple[int, ...], ...]:
        """Return the phoneme ids of each sentence that has anything to pronounce.

        A sentence with too many phonemes is split, at a clause if possible.
        """
        return tuple(
            ids
            for sentence in self._sentences(text)
            for piece in split_phonemes(sentence.phonemes, self._max_phonemes)
            if (ids := ids_of(piece, self._ids))
        )

    def read_words(self, text: str) -> tuple[tuple[ReadWord, ...], ...]:
        """Return the words of each sentence of `read`, and their places in it.

        The words are those of the original text, not of its reading.
        """
        found: list[tuple[ReadWord, ...]] = []
        for sentence in self._sentences(text):
            owners = iter(sentence.owners)
            for piece in split_phonemes(sentence.phonemes, self._max_phonemes):
                words = place_words(piece, owners, self._ids)
                if ids_of(piece, self._ids):
                    found.append(words)
        return tuple(found)

    def pronounce(self, text: str) -> str:
        """Return the phonemes of a text."""
        return " ".join(sentence.phonemes for sentence in self._sentences(text))

    def _sentences(self, text: str) -> Iterator[_Sentence]:
        sentence: list[SpokenPiece] = []
        for piece in pieces_of(TokenizedText(text, british=self._british)):
            sentence.append(piece)
            if piece.ends_sentence:
                yield self._sentence(text, sentence)
                sentence = []
        if sentence:
            yield self._sentence(text, sentence)

    def _sentence(self, text: str, pieces: Sequence[SpokenPiece]) -> _Sentence:
        """Read a sentence; each of its phonemes belongs to its piece's word."""
        spoken, numbers = _in_runs(*spoken_text(pieces))
        words = _words_of(text, pieces)
        phonemes: list[str] = []
        owners: list[Owner] = []
        place = 0
        for token in self._read_tokens(spoken, [pieces[number] for number in numbers]):
            place = max(place, spoken.find(token.text, place))
            read = token.phonemes or ""
            owners += [words[numbers[place]]] * len(read.replace(" ", ""))
            phonemes.append(read + (" " if token.whitespace else ""))
            place += len(token.text)
        return _Sentence("".join(phonemes).strip(), tuple(owners))

    def _read_tokens(self, spoken: str, pieces: Sequence[SpokenPiece]) -> list[Any]:
        """Return the dictionary's tokens; if it fails, those of the words one by one."""
        spoken = spoken.replace("\n", " ")
        try:
            tokens = self._g2p.tokenize(spoken)
            place = 0
            for token in tokens:
                place = max(place, spoken.find(token.text, place))
                if token.text == "A" and place < len(pieces) and pieces[place].is_changed:
                    token.phonemes, token.rating = _NAME_OF_A, _CERTAIN
                place += len(token.text)
            respell(tokens, british=self._british)
            return list(self._g2p.phonemize_tokens(tokens))
        except (LookupError, TypeError, ValueError):
            parts = spoken.split()
            if len(parts) < 2:
                return []
            return [token for part in parts for token in self._read_tokens(f"{part} ", [])]


def _judged(piece: SpokenPiece, text: str) -> str:
    """Return a piece as checked for omissions: text that a rule has read counts as spoken."""
    if not piece.is_changed:
        return text[piece.start : piece.stop]
    if any(map(str.isalnum, piece.words)):
        return "a"
    original = text[piece.start : piece.stop]
    return original if original in SILENT_SIGNS else " "


def _words_of(text: str, pieces: Sequence[SpokenPiece]) -> list[Owner]:
    """Return the word of each piece.

    Words are separated by spaces, unless one piece covers several of them.
    """
    owners: list[int] = []
    spans: list[tuple[int, int]] = []
    for piece in pieces:
        part = text[piece.start : piece.stop]
        begin = piece.start + len(part) - len(part.lstrip())
        end = piece.start + len(part.rstrip())
        follows = owners and begin == piece.start and spans[-1][1] == begin < end
        if follows and spans[-1][0] < spans[-1][1]:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((begin, max(begin, end)))
        owners.append(len(spans) - 1)
    return [(number, text[slice(*spans[number])]) for number in owners]


def _in_runs(spoken: str, numbers: list[int]) -> tuple[str, list[int]]:
    """Return a text with long runs without spaces split, and its characters' numbers."""
    if len(max(spoken.split(), key=len, default="")) <= _MAX_RUN_CHARACTERS:
        return spoken, numbers
    written: list[str] = []
    owners: list[int] = []
    length = 0
    for character, number in zip(spoken, numbers, strict=True):
        is_break = length >= _MAX_RUN_CHARACTERS or (
            length >= _MAX_RUN_CHARACTERS // 2 and not written[-1].isalnum()
        )
        if character.isspace():
            length = 0
        elif is_break:
            written.append(" ")
            owners.append(number)
            length = 1
        else:
            length += 1
        written.append(character)
        owners.append(number)
    return "".join(written), owners


@lru_cache(maxsize=2)
def _g2p(british: bool) -> G2P:
    """Return this process's dictionaries of an accent."""
    found = G2P(british=british)
    # Unknown words load a network on first use: load it now, before other threads can.
    found(_MADE_UP_WORD)
    return found
