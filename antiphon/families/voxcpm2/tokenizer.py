"""Text tokenizer from a checkpoint's tokenizer.json, which splits Chinese into characters."""

from functools import cached_property
from pathlib import Path

from tokenizers import Tokenizer

from antiphon.engine.faults import loaded
from antiphon.errors import ModelLoadError
from antiphon.families.kit.token_ids import token_ids

_WORD_START = "\u2581"
_FIRST_CHINESE, _LAST_CHINESE = "\u4e00", "\u9fff"


class VoxCPM2Tokenizer:
    """A thread-safe tokenizer, which never reads special tokens from a text."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        tokenizer.encode_special_tokens = True
        self._tokenizer = tokenizer

    @property
    def size(self) -> int:
        """Upper bound of ids."""
        return max(self._tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    def encode(self, text: str) -> list[int]:
        ids = token_ids(self._tokenizer, text)
        return [part for token in ids for part in self._words.get(token, (token,))]

    @cached_property
    def _words(self) -> dict[int, tuple[int, ...]]:
        """Character ids of every token of several characters, all Chinese."""
        words: dict[int, tuple[int, ...]] = {}
        vocabulary = self._tokenizer.get_vocab(with_added_tokens=True)
        for name, number in vocabulary.items():
            word = name.replace(_WORD_START, "")
            is_split = len(word) > 1 and word in vocabulary and _is_chinese(word)
            parts = tuple(vocabulary[each] for each in word if each in vocabulary)
            if is_split and len(parts) == len(word):
                words[number] = parts
        return words


def load_tokenizer(path: Path, vocab_size: int) -> VoxCPM2Tokenizer:
    """Read the tokenizer of a checkpoint's directory; raises ModelLoadError."""
    file = path / "tokenizer.json"
    read = loaded(
        lambda: Tokenizer.from_str(file.read_text(encoding="utf-8")), f"{file}: cannot be read"
    )
    tokenizer = VoxCPM2Tokenizer(read)
    if tokenizer.size > vocab_size:
        raise ModelLoadError(f"{file}: has {tokenizer.size} ids, the model {vocab_size}")
    return tokenizer


def _is_chinese(word: str) -> bool:
    return all(_FIRST_CHINESE <= each <= _LAST_CHINESE for each in word)
