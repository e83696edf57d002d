"""Makes checkpoints of random weights in the published layout, for tests and measurements."""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from antiphon.families.kit.random_tokenizer import write_byte_tokenizer
from antiphon.families.mimo_audio import random_configs as configs
from antiphon.families.mimo_audio.checkpoint import layout_of, tokenizer_layout_of
from antiphon.families.mimo_audio.config_reader import load_config, load_tokenizer_config
from antiphon.families.mimo_audio.tokenizer_path import TOKENIZER_NAME
from antiphon.nn.random_weights import (
    Dtype,
    RandomTensor,
    check_arguments,
    num_bytes,
    write_sharded,
)
from antiphon.nn.safetensors_index import Shape

TASKS = ("custom_voice",)


def make_checkpoint(
    path: Path,
    *,
    size: configs.Size = "tiny",
    task: str = "custom_voice",
    vocabulary: str = "byte",
    seed: int = 0,
    dtype: Dtype = "float32",
    shards: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Write a checkpoint's directory, with the audio tokenizer in one of its own within it.

    Args:
        path: the directory; it may exist, and what it holds is replaced file by file.
        size: ``"tiny"`` runs in seconds on a CPU; ``"7b"`` has the published sizes.
        task: ``"custom_voice"``.
        vocabulary: ``"byte"``: one that reads any text.
        seed: of all weights.
        dtype: of all weights.
        shards: files that the language model's weights are spread over.
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
    beside = path / TOKENIZER_NAME
    beside.mkdir(parents=True, exist_ok=True)
    _write_json(path / "config.json", configs.main_config(size, dtype))
    _write_json(beside / "config.json", configs.tokenizer_config(size))
    tokenizer = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "model_max_length": 8192}
    write_byte_tokenizer(path, configs.SPECIAL_TOKENS, tokenizer)
    config = load_config(path)
    main = {name: _tensor(name, shape) for name, shape in layout_of(config).items()}
    layout = tokenizer_layout_of(load_tokenizer_config(beside, config))
    audio = {name: _audio_tensor(name, shape) for name, shape in layout.items()}
    total, done = num_bytes(main, dtype) + num_bytes(audio, dtype), 0

    def written(num_written: int) -> None:
        nonlocal done
        done += num_written
        if progress is not None:
            progress(done, total)

    write_sharded(path, main, seed, dtype, shards, written)
    write_sharded(beside, audio, seed, dtype, 1, written)


def _tensor(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor of the language model.

    Values of the first layer's attention lean to one side, and with them what the head reads: it
    finds "no text, but audio" likely after any input, and other text now and then.
    """
    if "norm" in name:
        return RandomTensor(shape, 0.1, 1.0)
    if name == "model.layers.0.self_attn.v_proj.bias":
        return RandomTensor(shape, 0.1, 1.0)
    if name == "model.layers.0.self_attn.o_proj.weight":
        return RandomTensor(shape, 0.5 / math.sqrt(shape[1]), 2.0 / shape[1])
    if name == "lm_head.weight":
        empty = 256 + configs.SPECIAL_TOKENS.index("<|empty|>")
        return RandomTensor(shape, 1.0 / math.sqrt(shape[1]), row_means={empty: 7.0 / shape[1]})
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.3)
    if "embed" in name and "to_local" not in name:
        return RandomTensor(shape, 0.5)
    return RandomTensor(shape, (3.0 if "lm_heads" in name else 1.5) / math.sqrt(shape[1]))


def _audio_tensor(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor of the audio tokenizer."""
    if "norm" in name:
        return RandomTensor(shape, 0.1, 0.0 if name.endswith("bias") else 1.0)
    if name.endswith("window"):
        return RandomTensor(shape, 0.0, 0.5)
    if name.endswith((".inited", ".cluster_size")):
        return RandomTensor(shape, 0.0, 1.0)
    if "_codebook" in name:
        return RandomTensor(shape, 0.5)
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.1)
    return RandomTensor(shape, 1.0 / math.sqrt(math.prod(shape[1:])))


def _write_json(file: Path, content: Mapping[str, object]) -> None:
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
