"""Tokenizer files of random checkpoints, with bytes and special tokens."""

import base64
import json
from pathlib import Path

from antiphon.families.fish_speech.special_tokens import RANKS_FILE, SPECIAL_FILE
from antiphon.families.kit.random_tokenizer import write_byte_tokenizer

_SPECIAL_TOKENS = (
    *("<|endoftext|>", "<|pad|>", "<|im_start|>", "<|im_end|>", "<|phoneme_start|>"),
    *("<|phoneme_end|>", "<|text|>", "<|voice|>", "<|interleave|>", "<|audio_start|>"),
    *("<|audio_end|>", "<|audio_pad|>"),
)


def write_s2_tokenizer(path: Path, num_semantic: int) -> int:
    """Write tokenizer.json; return the number of ids."""
    content = {"eos_token": "<|im_end|>", "pad_token": "<|pad|>"}
    return write_byte_tokenizer(path, _specials(num_semantic), content)


def write_s1_tokenizer(path: Path, num_semantic: int) -> int:
    """Write tokenizer.tiktoken and special_tokens.json; return the number of ids."""
    ranks = [bytes([value]) for value in range(256)]
    lines = (f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(ranks))
    (path / RANKS_FILE).write_text("\n".join([*lines, ""]), encoding="ascii")
    ids = {name: len(ranks) + index for index, name in enumerate(_specials(num_semantic))}
    (path / SPECIAL_FILE).write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")
    return len(ranks) + len(ids)


def _specials(num_semantic: int) -> tuple[str, ...]:
    semantic = (f"<|semantic:{code}|>" for code in range(num_semantic))
    return (*_SPECIAL_TOKENS, *semantic)
