"""English text to phonemes; parts that cannot be read are left out and reported."""

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from hibari.g2p import G2P

from antiphon.contracts.prompt import TextCheck
from antiphon.text.base import PhonemeReader, ReadSentence, Span, judged_text
from antiphon.text.contexts import reading_in
from antiphon.text.english_tables import HOMOGRAPHS, NAME_PHONEMES
from antiphon.text.tokens import SpokenPiece, TokenizedText
from antiphon.text.unspoken import UnspokenFinder
from antiphon.text.written_out import SILENT_SIGNS, pieces_of, spoken_text

# Reading time grows with the cube of a word's parts: a path of 400 characters would take seconds.
_MAX_RUN_CHARACTERS = 64
_MADE_UP_WORD = "zorblewick"
_NAME_OF_A = "\u02c8A"
_CERTAIN = 5
_NUM_NEIGHBOURS = 4


class EnglishReader(PhonemeReader):
    """Reader of one accent; thread-safe once built."""

    def __init__(self, ids: Mapping[str, int], *, british: bool, max_phonemes: int) -> None:
        """Load the dictionaries of an accent, once per process.

        Args:
            ids: ids of the phonemes that the network knows.
            british: whether the accent is British rather than American.
            max_phonemes: phonemes above which a sentence is split.
        """
        super().__init__(ids, max_phonemes)
        self._g2p = _g2p(british)
        self._british = british
        self._unspoken = UnspokenFinder(self.pronounce)

    def check(self, text: str) -> TextCheck:
        """Return the parts of a text that have no reading."""
        if text.isascii() and text.replace(" ", "").isalnum():
            return TextCheck((), is_spoken=True)
        return self._unspoken.check(judged_text(text, self._pieces, SILENT_SIGNS))

    def _pieces(self, text: str) -> Iterator[SpokenPiece]:
        return pieces_of(TokenizedText(text, british=self._british))

    def _sentences(self, text: str) -> Iterator[ReadSentence]:
        sentence: list[SpokenPiece] = []
        for piece in self._pieces(text):
            sentence.append(piece)
            if piece.ends_sentence:
                yield self._sentence(text, sentence)
                sentence = []
        if sentence:
            yield self._sentence(text, sentence)

    def _sentence(self, text: str, pieces: Sequence[SpokenPiece]) -> ReadSentence:
        """Read a sentence; each of its phonemes belongs to its piece's word."""
        spoken, numbers = _in_runs(*spoken_text(pieces))
        words = _words_of(text, pieces)
        readings = dict.fromkeys(words, "")
        for character, number in zip(spoken, numbers, strict=True):
            readings[words[number]] += character
        phonemes: list[str] = []
        owners: list[Span] = []
        place = 0
        for token in self._read_tokens(spoken, [pieces[number] for number in numbers]):
            place = max(place, spoken.find(token.text, place))
            read = token.phonemes or ""
            owners += [words[numbers[place]]] * len(read.replace(" ", ""))
            phonemes.append(read + (" " if token.whitespace else ""))
            place += len(token.text)
        return ReadSentence("".join(phonemes).strip(), tuple(owners), readings)

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
            _respell(tokens, british=self._british)
            return list(self._g2p.phonemize_tokens(tokens))
        except (LookupError, TypeError, ValueError):
            parts = spoken.split()
            if len(parts) < 2:
                return []
            return [token for part in parts for token in self._read_tokens(f"{part} ", [])]


def _words_of(text: str, pieces: Sequence[SpokenPiece]) -> list[Span]:
    """Return the word of each piece, an empty one for what is read as a space.

    Words are separated by spaces, unless one piece covers several of them.
    """
    spans: list[Span] = []
    owners: list[int] = []
    for piece in pieces:
        begin, end = piece.stripped(text)
        if begin >= end or (piece.words.isspace() and not piece.is_changed):
            spans.append((piece.stop, piece.stop))
        elif spans and begin == piece.start == spans[-1][1] > spans[-1][0]:
            spans[-1] = spans[-1][0], end
        else:
            spans.append((begin, end))
        owners.append(len(spans) - 1)
    return [spans[number] for number in owners]


def _in_runs(spoken: str, numbers: list[int]) -> tuple[str, list[int]]:
    """Return a text with long runs without spaces split, and its characters' numbers."""
    if len(max(spoken.split(), key=len, default="")) <= _MAX_RUN_CHARACTERS:
        return spoken, numbers
    written: list[str] = []
    owners: list[int] = []
    length = 0
    for character, number in zip(spoken, numbers, strict=True):
        is_mark = length >= _MAX_RUN_CHARACTERS // 2 and not written[-1].isalnum()
        if not character.isspace() and (is_mark or length >= _MAX_RUN_CHARACTERS):
            written.append(" ")
            owners.append(number)
            length = 0
        length = 0 if character.isspace() else length + 1
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


def _respell(tokens: Sequence[Any], *, british: bool) -> None:
    """Mark the dictionary's tokens of homographs and names with their reading in this sentence."""
    texts = [token.text for token in tokens]
    for place, token in enumerate(tokens):
        low = token.text.lower()
        rows = HOMOGRAPHS.get(low)
        reading = None
        if rows is not None:
            start = max(0, place - _NUM_NEIGHBOURS)
            after = texts[place + 1 : place + 1 + _NUM_NEIGHBOURS]
            reading = reading_in(rows, texts[start:place][::-1], after)
        if reading is not None and reading.isupper():
            token.tag = reading
        elif reading is not None and reading not in NAME_PHONEMES and reading != low:
            token.alias = reading
        name = NAME_PHONEMES.get(reading or low)
        if name is not None:
            token.phonemes = name.replace("O", "Q") if british else name
            token.rating = _CERTAIN
        if token.text == "'s" and place and tokens[place - 1].rating == _CERTAIN:
            tokens[place - 1].phonemes += "s" if tokens[place - 1].phonemes[-1] in "fkpt" else "z"
            token.phonemes = ""
