"""A small tokenizer in Qwen's format, for checkpoints of random weights: it reads any text."""

from collections.abc import Sequence
from typing import Any

from tokenizers import pre_tokenizers
from transformers import AddedToken, Qwen2Tokenizer

SPECIAL_TOKENS = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|vision_pad|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
_WRITTEN = {" ": "Ġ", "\n": "Ċ"}
"""How byte-level vocabularies write these bytes."""


def byte_level_vocabulary(words: Sequence[str]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """Return ids of all bytes and of the beginnings of words, and the merges that make them.

    Args:
        words: texts of printable ASCII, spaces and line ends that should take few tokens.
    """
    vocabulary = {
        letter: index for index, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))
    }
    merges: list[tuple[str, str]] = []
    for word in words:
        letters = [_WRITTEN.get(letter, letter) for letter in word]
        start = letters[0]
        for letter in letters[1:]:
            if start + letter not in vocabulary:
                vocabulary[start + letter] = len(vocabulary)
                merges.append((start, letter))
            start += letter
    return vocabulary, merges


def qwen_tokenizer(text: str, **more: Any) -> Any:
    """Return a tokenizer that reads the words of ``text``, with their spaces, in few tokens.

    Args:
        text: such as a template.
        more: arguments of transformers' ``Qwen2Tokenizer``.
    """
    words = [*dict.fromkeys(each for word in text.split() for each in (word, f" {word}"))]
    vocabulary, merges = byte_level_vocabulary([word for word in words if word.isascii()])
    tokenizer = Qwen2Tokenizer(
        vocab=vocabulary,
        merges=merges,
        unk_token="<|endoftext|>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        model_max_length=32768,
        **more,
    )
    tokenizer.add_tokens(
        [AddedToken(each, special=True, normalized=False) for each in SPECIAL_TOKENS]
    )
    return tokenizer
