"""Makers of checkpoints of published and of tiny sizes, without weights."""

import base64
import json
from pathlib import Path

from antiphon.families.fish_speech.config import RANKS_FILE, SPECIAL_FILE, Layout
from antiphon.families.kit.random_checkpoint import (
    Json,
    Making,
    checkpoint_maker,
    configs_of,
    write_byte_tokenizer,
    write_json,
)
from antiphon.nn.random_weights import check_arguments

CONFIGS = Path(__file__).with_name("sizes.json")
_TASKS = {"s2": Layout.S2, "s1": Layout.S1}
_EITHER = ("custom_voice", "base")
"""Task names of other families: checkpoints of this one have voices and clone them."""
_MIN_VOCABULARY = 155_776
_SPECIAL_TOKENS = (
    *("<|endoftext|>", "<|pad|>", "<|im_start|>", "<|im_end|>", "<|phoneme_start|>"),
    *("<|phoneme_end|>", "<|text|>", "<|voice|>", "<|interleave|>", "<|audio_start|>"),
    *("<|audio_end|>", "<|audio_pad|>"),
)


@checkpoint_maker(sizes=("tiny", "s2-pro", "s1-mini"))
def make_checkpoint(path: Path, making: Making) -> None:
    """Write configuration and tokenizer files; the task is the format.

    ``None``, ``"custom_voice"`` and ``"base"`` select the format by the size, and S2 for
    ``"tiny"``.
    """
    task = making.task
    if task is None or task in _EITHER:
        task = "s1" if making.size == "s1-mini" else "s2"
    check_arguments(task=(task, [*_TASKS, *_EITHER]))
    scale = "tiny" if making.size == "tiny" else "published"
    config = configs_of(CONFIGS, scale, task, f"{task}, {scale}")["config.json"]
    write_files(path, config | {"dtype": making.dtype}, 0 if scale == "tiny" else _MIN_VOCABULARY)


def write_files(path: Path, config: Json, min_vocabulary: int = 0) -> None:
    """Write the tokenizer of a configuration's format, and the configuration.

    Args:
        config: contents of config.json without the size of the vocabulary.
    """
    if config["model_type"] == Layout.S2:
        num_semantic = config["audio_decoder_config"]["vocab_size"]
        content = {"eos_token": "<|im_end|>", "pad_token": "<|pad|>"}
        size = write_byte_tokenizer(path, _specials(num_semantic), content)
        config["text_config"]["vocab_size"] = max(size, min_vocabulary)
    else:
        size = _write_ranks(path, _specials(config["codebook_size"]))
        config["vocab_size"] = max(size, min_vocabulary)
    write_json(path / "config.json", config)


def _write_ranks(path: Path, specials: tuple[str, ...]) -> int:
    """Write tokenizer.tiktoken and special_tokens.json; return the number of ids."""
    ranks = [bytes([value]) for value in range(256)]
    lines = (f"{base64.b64encode(token).decode()} {rank}" for rank, token in enumerate(ranks))
    (path / RANKS_FILE).write_text("\n".join([*lines, ""]), encoding="ascii")
    ids = {name: len(ranks) + index for index, name in enumerate(specials)}
    (path / SPECIAL_FILE).write_text(json.dumps(ids, indent=2) + "\n", encoding="utf-8")
    return len(ranks) + len(ids)


def _specials(num_semantic: int) -> tuple[str, ...]:
    semantic = (f"<|semantic:{code}|>" for code in range(num_semantic))
    return (*_SPECIAL_TOKENS, *semantic)
