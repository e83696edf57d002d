"""Long texts have the ids that the tokenizer itself gives them, and are read without the lock."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Regex, Tokenizer, models
from tokenizers.normalizers import NFC
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

from antiphon.families.kit.token_ids import _MAX_QUICK_CHARACTERS, encoding_of, token_ids

WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PIECES = ("a", "b", " ", "ab", "\n", "1", "é", "e\u0301", "你", "🙂", "<|end|>", "!")


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    alphabet = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    merges = [("a", "b"), ("Ġ", "a"), ("Ġa", "b"), ("ab", "ab")]
    merged = ("".join(pair) for pair in merges)
    vocabulary = alphabet | {word: 256 + number for number, word in enumerate(merged)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    made.normalizer = NFC()
    words = Split(Regex(WORDS), behavior="isolated")
    made.pre_tokenizer = Sequence([words, ByteLevel(False, use_regex=False)])
    made.add_special_tokens([AddedToken("<|end|>", special=True, normalized=False)])
    return made


@given(pieces=st.lists(st.sampled_from(PIECES), max_size=30), times=st.integers(1, 200))
def test_ids_are_those_of_the_tokenizer(tokenizer: Any, pieces: list[str], times: int) -> None:
    text = "".join(pieces) * times
    assert token_ids(tokenizer, text) == tokenizer.encode(text, add_special_tokens=False).ids


def test_a_long_text_is_never_encoded_with_the_lock() -> None:
    class Refusing:
        """Has the one of the tokenizer's calls that releases the lock."""

        def encode_batch_fast(self, texts: list[str], **more: bool) -> list[str]:
            assert more == {"add_special_tokens": False}
            return texts

    stand_in: Any = Refusing()
    text = "a" * (_MAX_QUICK_CHARACTERS + 1)
    found: Any = encoding_of(stand_in, text)
    assert found == text
