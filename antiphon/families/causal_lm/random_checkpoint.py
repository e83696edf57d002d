"""Makes checkpoints of random weights in published layouts, for tests and measurements."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from antiphon.families.causal_lm import random_configs as configs
from antiphon.families.causal_lm.checkpoint import layout_of
from antiphon.families.causal_lm.config import load_config
from antiphon.families.causal_lm.omni.random_voice import make_voice
from antiphon.families.kit.random_tokenizer import write_byte_tokenizer
from antiphon.families.kit.token_decoder import byte_letters
from antiphon.nn.random_weights import (
    Dtype,
    RandomTensor,
    check_arguments,
    num_bytes,
    write_sharded,
)
from antiphon.nn.safetensors_index import Shape

TASKS = get_args(configs.Layout)


def make_checkpoint(
    path: Path,
    *,
    size: configs.Size = "tiny",
    task: configs.Layout = "qwen3",
    vocabulary: str = "byte",
    seed: int = 0,
    dtype: Dtype = "float32",
    shards: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a checkpoint's directory; it may exist, and what it holds is replaced file by file.

    Args:
        path: the directory.
        size: ``"tiny"`` runs in seconds on a CPU; others have published sizes.
        task: the layout: ``"qwen2"``, ``"qwen3"``, ``"llama"``, ``"omni"`` (the thinker of a whole
            Qwen2.5-Omni, without its other parts), ``"omni_voice"`` (with its voice) or
            ``"thinker"`` (saved by itself).
        vocabulary: ``"byte"``: one that reads any text.
        seed: of all weights.
        dtype: of all weights.
        shards: files that they are spread over.
        progress: called with the bytes written so far and the bytes in all.

    Raises:
        ModelLoadError: an argument is none of these.
    """
    check_arguments(
        size=(size, get_args(configs.Size)),
        task=(task, TASKS),
        vocabulary=(vocabulary, ("byte",)),
        dtype=(dtype, get_args(Dtype)),
    )
    path.mkdir(parents=True, exist_ok=True)
    _write_json(path / "config.json", configs.main_config(size, task, dtype))
    _write_json(path / "generation_config.json", configs.GENERATION)
    tokenizer = {
        "eos_token": "<|im_end|>",
        "pad_token": "<|endoftext|>",
        "model_max_length": 4096,
        "chat_template": configs.TEMPLATE,
    }
    write_byte_tokenizer(path, configs.SPECIAL_TOKENS, tokenizer, byte_letters())
    layout = layout_of(load_config(path))
    tensors = {name: _tensor(name, shape) for name, shape in layout.items()}
    if task == "omni_voice":
        tensors |= make_voice(path, seed)
    total, done = num_bytes(tensors, dtype), 0

    def written(num_written: int) -> None:
        nonlocal done
        done += num_written
        if progress is not None:
            progress(done, total)

    write_sharded(path, tensors, seed, dtype, shards, written)


def _tensor(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor that keeps its inputs' size, so that answers differ from token to token."""
    if "norm" in name:
        return RandomTensor(shape, 0.1, 1.0)
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.3)
    if "embed_tokens" in name:
        return RandomTensor(shape, 0.5)
    gain = 3.0 if "lm_head" in name else 1.5
    return RandomTensor(shape, gain / math.sqrt(shape[1]))


def _write_json(file: Path, content: configs.Json) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
