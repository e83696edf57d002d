"""Byte-level BPE vocabulary in the files of the official checkpoints, learned from texts."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

# Qwen2's pattern, by which the official tokenizer and the engine cut text into words.
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
SPECIAL_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>"),
    *("<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>"),
    *("<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"),
)
_ROLES = ("assistant", "user")
"""Words by whose ids the official code cuts prompts: each must be one token."""
_ROWS_ARE_A_MULTIPLE_OF = 64


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Vocabulary of the text side.

    Attributes:
        ids: ids of all tokens, special ones last.
        merges: pairs of tokens that are joined, in order.
    """

    ids: dict[str, int]
    merges: tuple[tuple[str, str], ...]

    @classmethod
    def learn(cls, texts: Iterable[str], size: int) -> "Vocabulary":
        """Learn merges from texts.

        Args:
            texts: texts as they will be spoken.
            size: tokens apart from special ones and those of the roles; above 256.
        """
        tokenizer = _tokenizer(models.BPE())
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        trainer = trainers.BpeTrainer(
            vocab_size=size, initial_alphabet=alphabet, show_progress=False
        )
        tokenizer.train_from_iterator(texts, trainer)
        model = json.loads(tokenizer.to_str())["model"]
        merges = [_pair(merge) for merge in model["merges"]]
        ids = dict.fromkeys(alphabet) | dict.fromkeys("".join(pair) for pair in merges)
        found = {token: number for number, token in enumerate(ids)}
        for role in _ROLES:
            _add_word(role, found, merges)
        for token in SPECIAL_TOKENS:
            found[token] = len(found)
        return cls(found, tuple(merges))

    @classmethod
    def read(cls, directory: Path) -> "Vocabulary":
        """Read the files of `write`."""
        ids = json.loads((directory / "vocab.json").read_text(encoding="utf-8"))
        lines = (directory / "merges.txt").read_text(encoding="utf-8").split("\n")
        merges = [_pair(line) for line in lines if line and not line.startswith("#version")]
        return cls(ids, tuple(merges))

    @property
    def num_rows(self) -> int:
        """Rows of the text embedding."""
        return -(-len(self.ids) // _ROWS_ARE_A_MULTIPLE_OF) * _ROWS_ARE_A_MULTIPLE_OF

    def encode(self, texts: Sequence[str], *, dropout: float = 0.0) -> list[list[int]]:
        """Return the ids of texts.

        Args:
            texts: plain texts.
            dropout: share of merges left out at random, so that rare tokens are learned too.
        """
        model = models.BPE(dict(self.ids), list(self.merges), dropout=dropout or None)
        tokenizer = _tokenizer(model)
        encodings = tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def write(self, directory: Path) -> None:
        """Write vocab.json, merges.txt and tokenizer_config.json."""
        lines = ["#version: 0.2", *(" ".join(pair) for pair in self.merges), ""]
        _write_json(directory / "vocab.json", self.ids)
        (directory / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
        plain = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
        added = {
            str(self.ids[token]): {"content": token, **plain, "special": True}
            for token in SPECIAL_TOKENS
        }
        _write_json(directory / "tokenizer_config.json", {**_CONFIG, "added_tokens_decoder": added})


def _tokenizer(model: models.BPE) -> Tokenizer:
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = normalizers.NFC()
    split = pre_tokenizers.Split(Regex(_WORDS), behavior="isolated")
    byte_level = pre_tokenizers.ByteLevel(False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, byte_level])
    return tokenizer


def _add_word(word: str, ids: dict[str, int], merges: list[tuple[str, str]]) -> None:
    """Add the merges that make one token of a word, after all others."""
    model = models.BPE(dict(ids), list(merges))
    parts = [token.value for token in model.tokenize(word)]
    while len(parts) > 1:
        joined = parts[0] + parts[1]
        merges.append((parts[0], parts[1]))
        ids.setdefault(joined, len(ids))
        parts[:2] = [joined]


def _pair(merge: Any) -> tuple[str, str]:
    first, second = merge.split(" ") if isinstance(merge, str) else merge
    return first, second


def _write_json(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, ensure_ascii=False) + "\n", encoding="utf-8")


_CONFIG = {
    "add_bos_token": False,
    "add_prefix_space": False,
    "bos_token": None,
    "clean_up_tokenization_spaces": False,
    "eos_token": "<|im_end|>",
    "errors": "replace",
    "model_max_length": 131072,
    "pad_token": "<|endoftext|>",
    "processor_class": "Qwen3TTSProcessor",
    "split_special_tokens": False,
    "tokenizer_class": "Qwen2Tokenizer",
    "unk_token": None,
}
