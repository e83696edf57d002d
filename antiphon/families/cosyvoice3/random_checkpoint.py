"""Writer of checkpoints with random weights in the official layout, for tests and benchmarks."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import get_args

import numpy as np
import torch
from tokenizers.pre_tokenizers import ByteLevel
from torch import Tensor

from antiphon.families.cosyvoice3 import checkpoint as schema
from antiphon.families.cosyvoice3.config import CONFIG_FILE, TEXT_FOLDER, load_config
from antiphon.families.cosyvoice3.random_configs import (
    FIRST_TINY_MARK,
    SIZES,
    Json,
    Size,
    text_config,
    yaml_of,
)
from antiphon.families.cosyvoice3.random_encoders import write_encoders
from antiphon.families.cosyvoice3.voices import VOICES_FILE
from antiphon.families.kit.random_checkpoint import Making, checkpoint_maker, report_files
from antiphon.nn.random_weights import RandomTensor, random_values
from antiphon.nn.safetensors_index import Shape

TASKS = ("base", "custom_voice")
VOICE = "random"
_PITCH_HZ = 120.0  # in most frames
_QUIET = -3.0  # log magnitude


@checkpoint_maker(sizes=get_args(Size), tasks=TASKS, dtypes=("float32",), is_sharded=False)
def make_checkpoint(path: Path, making: Making) -> None:
    """Write a checkpoint, one file per network.

    ``"base"`` clones voices from reference audio; ``"custom_voice"`` also has a built-in voice in
    spk2info.pt.
    """
    seed = making.seed
    sizes, folder = SIZES[making.size], path / TEXT_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (path / CONFIG_FILE).write_text(yaml_of(sizes), encoding="utf-8")
    _write_json(folder / "config.json", text_config(sizes))
    _write_tokenizer(folder, is_compact=making.size == "tiny")
    config = load_config(path)
    torch.save(_drawn(schema.language_layout(config), seed), path / schema.LANGUAGE_FILE)
    torch.save(_drawn(schema.flow_layout(config.flow), seed), path / schema.FLOW_FILE)
    vocoder = _parted(_drawn(schema.vocoder_layout(config.vocoder), seed))
    torch.save(vocoder, path / schema.VOCODER_FILE)
    write_encoders(path, config.flow.speaker_size, seed)
    if making.task == "custom_voice":
        speaker = _tensor("speaker", RandomTensor((1, config.flow.speaker_size), 1.0), seed)
        torch.save({VOICE: {"embedding": speaker}}, path / VOICES_FILE)
    else:
        (path / VOICES_FILE).unlink(missing_ok=True)
    report_files(path, making.progress)


def _drawn(layout: Mapping[str, Shape], seed: int) -> dict[str, Tensor]:
    return {name: _tensor(name, _random(name, shape), seed) for name, shape in layout.items()}


def _tensor(name: str, wanted: RandomTensor, seed: int) -> Tensor:
    values = np.concatenate([*random_values(name, wanted, seed)])
    return torch.from_numpy(values).view(wanted.shape)


def _random(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor that preserves the scale of its inputs, so that outputs vary over time."""
    if name == "f0_predictor.classifier.bias":
        return RandomTensor(shape, 0.0, _PITCH_HZ)
    if name.endswith(".alpha"):
        return RandomTensor(shape, 0.2, 1.0)
    if "norm" in name and len(shape) == 1 and name.endswith(".weight"):
        return RandomTensor(shape, 0.1, 1.0)
    if name == "conv_post.bias":
        return RandomTensor(shape, 0.3, _QUIET)
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.1)
    if "embed" in name and len(shape) == 2 and not name.startswith("decoder."):
        return RandomTensor(shape, 0.5)
    gain = 50.0 if name == "f0_predictor.classifier.weight" else 0.8
    if name == "llm_decoder.weight" or name.startswith(schema.TEXT_PREFIX):
        gain = 1.5
    return RandomTensor(shape, gain / math.sqrt(math.prod(shape[1:])))


def _parted(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return convolution weights split into norm and direction, where training stores them so."""
    parted: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        stem = name.removesuffix(".weight")
        if tensor.ndim < 3 or stem.startswith("source_downs"):
            parted[name] = tensor
            continue
        parted[f"{stem}.parametrizations.weight.original0"] = tensor.norm(dim=(1, 2), keepdim=True)
        parted[f"{stem}.parametrizations.weight.original1"] = tensor
    return parted


def _write_tokenizer(folder: Path, *, is_compact: bool) -> None:
    """Write a byte vocabulary, followed by the marks directly or at their published ids."""
    vocabulary = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    if is_compact:
        vocabulary["<|endoftext|>"] = FIRST_TINY_MARK
    _write_json(folder / "vocab.json", vocabulary)
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")


def _write_json(file: Path, content: Json) -> None:
    file.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
