"""The toy's tokens: bytes, a few common words, and one that ends an answer."""

import codecs
from collections.abc import Iterator

END = 256
_WORDS = (b"You ", b"said", b": ", b"ing", b" the")
VOCAB_SIZE = END + 1 + len(_WORDS)


def tokens_of(text: str) -> tuple[int, ...]:
    """Return the tokens of a text, words before bytes."""
    return tuple(_read(text.encode()))


def bytes_of(token: int) -> bytes:
    """Return what a token stands for; of the end, nothing."""
    if token < END:
        return bytes([token])
    return b"" if token == END else _WORDS[token - END - 1]


def _read(content: bytes) -> Iterator[int]:
    at = 0
    while at < len(content):
        word = next((each for each in _WORDS if content.startswith(each, at)), None)
        yield content[at] if word is None else END + 1 + _WORDS.index(word)
        at += 1 if word is None else len(word)


class Utf8Detokenizer:
    """Joins bytes; those of a character that has begun wait for the others."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, token: int) -> str:
        """Return the text that is certain by now."""
        return self._decoder.decode(bytes_of(token))

    def flush(self) -> str:
        """Return U+FFFD for a character that has begun and not ended."""
        return self._decoder.decode(b"", final=True)
