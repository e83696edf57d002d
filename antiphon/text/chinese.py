"""Chinese text to phonemes by misaki; English words in it are read as English.

misaki (Apache-2.0) and its dependencies (jieba, pypinyin and cn2an, all MIT) are optional: see
`CHINESE_PACKAGES`.
"""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any

from antiphon.contracts.prompt import TextCheck
from antiphon.text.base import ReadWord, SentenceIds, ids_of, place_words, split_phonemes
from antiphon.text.english import EnglishReader
from antiphon.text.unspoken import UnspokenFinder

CHINESE_PACKAGES = (
    ("misaki", "misaki"),
    ("jieba", "jieba"),
    ("pypinyin", "pypinyin"),
    ("cn2an", "cn2an"),
)
"""Required modules, and their package names."""

_HAN = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af"
_SENTENCE_END = re.compile(r"(?<=[。！？!?…])(?![。！？!?…”’」』）)])|(?<=\.)\s+|\n+")
_TOKEN = re.compile(
    rf"(?P<han>[{_HAN}]+)|(?P<latin>[^\W\d_{_HAN}]+(?:['’][^\W\d_]+)*)|(?P<sign>\S)"
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
_LONG_NUMBER = re.compile(r"[0-9]{16,}")
_DIGITS = "零一二三四五六七八九"


class ChineseReader:
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
        self._segment = _segmenter()
        self._syllables = _syllables()
        self._ids = ids
        self._english = english
        self._max_phonemes = max_phonemes
        self._unspoken = UnspokenFinder(self.pronounce, own_script="CJK")

    def check(self, text: str) -> TextCheck:
        """Return the parts of a text that have no reading."""
        return self._unspoken.check(_written_out(text))

    def read(self, text: str) -> tuple[SentenceIds, ...]:
        """Return the phoneme ids of each sentence that has anything to pronounce."""
        return tuple(
            ids
            for words in self._sentences(text)
            for piece in split_phonemes(_joined(words), self._max_phonemes)
            if (ids := ids_of(piece, self._ids))
        )

    def read_words(self, text: str) -> tuple[tuple[ReadWord, ...], ...]:
        """Return the words of each sentence of `read`, and their places in it."""
        found: list[tuple[ReadWord, ...]] = []
        for words in self._sentences(text):
            owners = iter(
                [
                    (number, word)
                    for number, (word, phonemes) in enumerate(words)
                    for _ in phonemes.replace(" ", "")
                ]
            )
            for piece in split_phonemes(_joined(words), self._max_phonemes):
                placed = place_words(piece, owners, self._ids)
                if ids_of(piece, self._ids):
                    found.append(placed)
        return tuple(found)

    def pronounce(self, text: str) -> str:
        """Return the phonemes of a text of at most one sentence."""
        return _joined([*self._words(_written_out(text))])

    def _sentences(self, text: str) -> Iterator[list[tuple[str, str]]]:
        for sentence in _SENTENCE_END.split(_written_out(text)):
            if words := [*self._words(sentence)]:
                yield words

    def _words(self, sentence: str) -> Iterator[tuple[str, str]]:
        """Yield words and signs with their phonemes; a sign stands for itself."""
        for token in _TOKEN.finditer(sentence):
            text = token.group()
            if token.lastgroup == "han":
                yield from ((word, self._syllables(word)) for word in self._segment(text))
            elif token.lastgroup == "latin":
                yield text, self._english.pronounce(text)
            else:
                sign = text.translate(_MARKS)
                yield sign, sign if sign in _CLOSING or sign in _OPENING else ""


def _joined(words: list[tuple[str, str]]) -> str:
    """Return phonemes with spaces between words, and none before a closing mark."""
    joined = ""
    for _, phonemes in words:
        if not phonemes:
            continue
        is_close = not joined or phonemes in _CLOSING or joined[-1] in _OPENING
        joined += phonemes if is_close else f" {phonemes}"
    return joined


def _written_out(text: str) -> str:
    """Return a text with its numbers in Chinese characters."""
    import cn2an

    plain = "".join(
        str(unicodedata.decimal(each)) if each.isdecimal() else each
        for each in unicodedata.normalize("NFC", text).replace("〇", "零")
    )
    plain = _LONG_NUMBER.sub(lambda digits: _digit_by_digit(digits.group()), plain)
    with suppress(ValueError, UserWarning):  # it supports not all that looks like a number
        plain = str(cn2an.transform(plain, "an2cn"))
    return re.sub(r"[0-9]+", lambda digits: _digit_by_digit(digits.group()), plain)


def _digit_by_digit(digits: str) -> str:
    return "".join(_DIGITS[int(each)] for each in digits)


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
    """Return the reader of single words."""
    from misaki.zh import ZHG2P

    def read(word: str) -> str:
        try:
            return str(ZHG2P.word2ipa(word)).replace(_NOT_SPELLED, "")
        except (AssertionError, LookupError, ValueError):  # no known syllable
            return "" if len(word) == 1 else "".join(map(read, word))

    return read
