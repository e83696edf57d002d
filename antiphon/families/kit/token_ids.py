"""Tokenization of text without holding the interpreter's lock (GIL)."""

from tokenizers import Encoding, Tokenizer

_MAX_QUICK_CHARACTERS = 1000
"""Longest text encoded with the lock held, about a millisecond; releasing it takes longer."""


def encoding_of(tokenizer: Tokenizer, text: str) -> Encoding:
    """Return the tokens of a text, without special tokens around it.

    `Tokenizer.encode` holds the interpreter's lock: for two seconds, if a text has a million
    characters. A batch of one text gives the same ids and releases it.
    """
    if len(text) <= _MAX_QUICK_CHARACTERS:
        return tokenizer.encode(text, add_special_tokens=False)
    (encoding,) = tokenizer.encode_batch_fast([text], add_special_tokens=False)
    return encoding


def token_ids(tokenizer: Tokenizer, text: str) -> list[int]:
    """Return the ids of a text; see `encoding_of`."""
    ids: list[int] = encoding_of(tokenizer, text).ids
    return ids
