"""Byte-level BPE tokenizers, and tokenization without holding the interpreter's lock (GIL)."""

from tokenizers import Encoding, Regex, Tokenizer
from tokenizers.models import BPE
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

QWEN_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"  # English endings
    r"|[^\r\n\p{L}\p{N}]?\p{L}+"  # letters, with one space or mark before them
    r"|\p{N}"  # digits, one by one
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*"  # marks
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"  # spaces
)
"""Pattern by which Qwen2's tokenizer cuts text into words."""
_MAX_QUICK_CHARACTERS = 1000
"""Longest text encoded with the lock held, about a millisecond; releasing it takes longer."""


def byte_level_bpe(model: BPE, words: str) -> Tokenizer:
    """Return a tokenizer that encodes the bytes of words; special tokens are letters to it."""
    tokenizer = Tokenizer(model)
    parts = [Split(Regex(words), behavior="isolated"), ByteLevel(False, use_regex=False)]
    tokenizer.pre_tokenizer = Sequence(parts)
    return tokenizer


def qwen_tokenizer(model: BPE) -> Tokenizer:
    """Return Qwen2's tokenizer over a vocabulary."""
    tokenizer = byte_level_bpe(model, QWEN_WORDS)
    tokenizer.normalizer = NFC()
    return tokenizer


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
    """Return the ids of a text; see `encoding_of`.

    Lone surrogates, which a JSON string can hold, become replacement characters.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    ids: list[int] = encoding_of(tokenizer, text).ids
    return ids
