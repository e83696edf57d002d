"""Tokens of byte-level vocabularies, and their incremental decoding to text.

Tokens are decoded as bytes, so that a character spread over several of them is returned with its
last byte.
"""

import codecs
from collections.abc import Mapping
from itertools import pairwise
from typing import Protocol


class TokenBytes(Protocol):
    """Properties of single tokens of a tokenizer."""

    def is_special(self, token: int) -> bool:
        """Return whether a token is not text."""

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes of a token."""


class TokenDecoder:
    """An `antiphon.contracts.chat.Detokenizer`."""

    def __init__(self, tokenizer: TokenBytes, *, strips_space: bool = False) -> None:
        """Start an answer; ``strips_space``: whether a leading space is removed."""
        self._tokenizer = tokenizer
        self._strips_space = strips_space
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        if self._tokenizer.is_special(token):
            return ""
        text = self._decoder.decode(self._tokenizer.token_bytes(token))
        if self._strips_space and text:
            text, self._strips_space = text.removeprefix(" "), False
        return text

    def flush(self) -> str:
        return self._decoder.decode(b"", final=True)


def byte_letters() -> Mapping[str, int]:
    """Return the letters of byte-level vocabularies for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = (value for value in range(0x100) if value not in plain)
    letters = {chr(value): value for value in plain}
    return letters | {chr(0x100 + index): value for index, value in enumerate(others)}


_BYTES = byte_letters()
_LETTERS = {value: letter for letter, value in _BYTES.items()}


def bytes_of_name(name: str) -> bytes:
    """Return the bytes of a token of a byte-level vocabulary."""
    if all(letter in _BYTES for letter in name):
        return bytes(_BYTES[letter] for letter in name)
    return name.encode()


def name_of_bytes(token: bytes) -> str:
    """Return the name of a token in a byte-level vocabulary."""
    return "".join(_LETTERS[value] for value in token)


def halves_of(token: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes]:
    """Return the two tokens that merge into one of several bytes; low ranks merge first."""
    parts = [token[index : index + 1] for index in range(len(token))]
    while len(parts) > 2:
        joined = [left + right for left, right in pairwise(parts)]
        at = min(range(len(joined)), key=lambda index: ranks.get(joined[index], len(ranks)))
        parts[at : at + 2] = [joined[at]]
    return parts[0], parts[1]
