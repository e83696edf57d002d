"""Writer of checkpoints with random weights in the published layout, for tests and benchmarks."""

import math
from pathlib import Path
from typing import get_args

from antiphon.families.kit.random_checkpoint import (
    Making,
    RandomPart,
    checkpoint_maker,
    write_json,
    write_parts,
)
from antiphon.families.kit.random_tokenizer import write_byte_tokenizer
from antiphon.families.mimo_audio import random_configs as configs
from antiphon.families.mimo_audio.checkpoint import layout_of, tokenizer_layout_of
from antiphon.families.mimo_audio.config_reader import load_config, load_tokenizer_config
from antiphon.families.mimo_audio.tokenizer_path import TOKENIZER_NAME
from antiphon.nn.random_weights import (
    RandomTensor,
)
from antiphon.nn.safetensors_index import Shape

TASKS = ("custom_voice",)


@checkpoint_maker(sizes=get_args(configs.Size), tasks=TASKS)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint, with the audio tokenizer in a subdirectory."""
    beside = path / TOKENIZER_NAME
    beside.mkdir(parents=True, exist_ok=True)
    write_json(path / "config.json", configs.main_config(making.size, making.dtype))
    write_json(beside / "config.json", configs.tokenizer_config(making.size))
    tokenizer = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "model_max_length": 8192}
    write_byte_tokenizer(path, configs.SPECIAL_TOKENS, tokenizer)
    config = load_config(path)
    main = {name: _tensor(name, shape) for name, shape in layout_of(config).items()}
    layout = tokenizer_layout_of(load_tokenizer_config(beside, config))
    audio = {name: _audio_tensor(name, shape) for name, shape in layout.items()}
    seed, dtype = making.seed, making.dtype
    parts = [
        RandomPart(directory=path, tensors=main, seed=seed, dtype=dtype, shards=making.shards),
        RandomPart(directory=beside, tensors=audio, seed=seed, dtype=dtype),
    ]
    write_parts(parts, making.progress)


def _tensor(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor of the language model.

    Values of the first attention layer have a non-zero mean, which makes the head predict audio
    groups after most inputs, and text now and then.
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
