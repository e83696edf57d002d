"""Chinese text to phonemes by misaki; English words in it are read as English.

misaki (Apache-2.0) and its dependencies (jieba, pypinyin and cn2an, all MIT) are optional: see
`CHINESE_PACKAGES`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from antiphon.contracts.prompt import TextCheck
from antiphon.text.base import PhonemeReader, ReadSentence, Span, judged_text
from antiphon.text.chinese_numbers import chinese_pieces_of
from antiphon.text.english import EnglishReader
from antiphon.text.tokens import HAN, SpokenPiece
from antiphon.text.unspoken import UnspokenFinder

CHINESE_PACKAGES = tuple((name, name) for name in ("misaki", "jieba", "pypinyin", "cn2an"))
"""Required modules, and their package names."""

_TOKEN = re.compile(
    rf"(?P<han>[{HAN}]+)|(?P<latin>[^\W\d_{HAN}]+(?:['’][^\W\d_{HAN}]+)*)|(?P<sign>\S)"
)
_MARKS = str.maketrans(
    {
        **dict.fromkeys("、，﹐", ","),
        **dict.fromkeys("。．｡", "."),
        **{"！": "!", "：": ":", "；": ";", "？": "?", "（": "(", "）": ")", "～": "~"},
        **dict.fromkeys("«《「『【", "“"),
        **dict.fromkeys("»》」』】", "”"),
    }
)
_CLOSING = frozenset(",.!?:;…—)”")
_OPENING = frozenset("(“")
_NOT_SPELLED = "\u032f"  # the mark of a vowel that is not a syllable: the networks do not know it


class ChineseReader(PhonemeReader):
    """Reader of Mandarin; thread-safe once built."""

    def __init__(
        self, ids: Mapping[str, int], english: EnglishReader, *, max_phonemes: int
    ) -> None:
        """Load the dictionaries, once per process.

        Args:
            ids: ids of the phonemes that the network knows.
            english: reader of Latin text.
            max_phonemes: phonemes above which a sentence is split.
        """
        super().__init__(ids, max_phonemes)
        self._segment = _segmenter()
        self._syllables = _syllables()
        self._english = english
        self._unspoken = UnspokenFinder(self.pronounce, own_script="CJK")

    def check(self, text: str) -> TextCheck:
        """Return the parts of a text that have no reading."""
        text = text.replace("〇", "零")
        return self._unspoken.check(judged_text(text, chinese_pieces_of))

    def _sentences(self, text: str) -> Iterator[ReadSentence]:
        sentence: list[SpokenPiece] = []
        text = text.replace("〇", "零")
        for piece in chinese_pieces_of(text):
            sentence.append(piece)
            if piece.ends_sentence:
                yield self._sentence(text, sentence)
                sentence = []
        yield self._sentence(text, sentence)

    def _sentence(self, text: str, pieces: Sequence[SpokenPiece]) -> ReadSentence:
        words = [*self._words(text, pieces)]
        spans = _separate([span for span, _, _ in words])
        phonemes, owners, readings = "", list[Span](), dict.fromkeys(spans, "")
        for span, (_, spoken, read) in zip(spans, words, strict=True):
            readings[span] += spoken
            if not read:
                continue
            is_close = not phonemes or read in _CLOSING or phonemes[-1] in _OPENING
            phonemes += read if is_close else f" {read}"
            owners += [span] * len(read.replace(" ", ""))
        return ReadSentence(phonemes, tuple(owners), readings)

    def _words(self, text: str, pieces: Sequence[SpokenPiece]) -> Iterator[tuple[Span, str, str]]:
        """Yield words and signs, where they are in the text, and their phonemes.

        A sign stands for itself.
        """
        spoken, origins = _spoken(text, pieces)
        for token in _TOKEN.finditer(spoken):
            words = self._segment(token[0]) if token.lastgroup == "han" else [token[0]]
            start = token.start()
            for word in words:
                stop = start + len(word)
                span = origins[start][0], origins[stop - 1][1]
                yield span, word, self._phonemes(word, token.lastgroup)
                start = stop

    def _phonemes(self, word: str, kind: str | None) -> str:
        if kind == "han":
            return str(self._syllables(word))
        if kind == "latin":
            return self._english.pronounce(word)
        sign = word.translate(_MARKS)
        return sign if sign in _CLOSING or sign in _OPENING else ""


def _separate(spans: Sequence[Span]) -> list[Span]:
    separate: list[Span] = []
    numbers: list[int] = []
    for start, stop in spans:
        if separate and start < separate[-1][1]:
            separate[-1] = separate[-1][0], max(stop, separate[-1][1])
        else:
            separate.append((start, stop))
        numbers.append(len(separate) - 1)
    return [separate[number] for number in numbers]


def _spoken(text: str, pieces: Sequence[SpokenPiece]) -> tuple[str, list[Span]]:
    spoken, origins = list[str](), list[Span]()
    for piece in pieces:
        is_word = piece.is_changed and piece.words.isascii() and piece.words[:1].isalnum()
        words = f" {piece.words} " if is_word else piece.words
        spoken.append(words)
        if piece.is_changed or len(words) != piece.stop - piece.start:
            origins += [piece.stripped(text)] * len(words)
        else:
            origins += ((place, place + 1) for place in range(piece.start, piece.stop))
    return "".join(spoken), origins


@lru_cache(maxsize=1)
def _segmenter() -> Any:
    """Return the segmenter of Chinese text, without a cache in a shared folder."""
    import jieba

    tokenizer = jieba.Tokenizer()
    tokenizer.FREQ, tokenizer.total = tokenizer.gen_pfdict(tokenizer.get_dict_file())
    tokenizer.initialized = True
    return tokenizer.lcut


@lru_cache(maxsize=1)
def _syllables() -> Any:
    from misaki.zh import ZHG2P

    def read(word: str) -> str:
        try:
            return str(ZHG2P.word2ipa(word)).replace(_NOT_SPELLED, "")
        except (AssertionError, LookupError, ValueError):  # no known syllable
            return "" if len(word) == 1 else "".join(map(read, word))

    return read
