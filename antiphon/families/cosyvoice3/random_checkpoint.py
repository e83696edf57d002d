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
from antiphon.families.cosyvoice3.config import (
    CONFIG_FILE,
    SPEAKER_NETWORK,
    TEXT_FOLDER,
    TOKEN_NETWORK,
    load_config,
)
from antiphon.families.cosyvoice3.random_configs import (
    FIRST_TINY_MARK,
    SIZES,
    Json,
    Size,
    text_config,
    yaml_of,
)
from antiphon.families.cosyvoice3.voice_encoder import SPEAKER_MELS, WHISPER_MELS
from antiphon.families.cosyvoice3.voices import VOICES_FILE
from antiphon.families.kit.onnx_graph import FLOAT, OnnxGraph, OnnxNode, tensor, value_info
from antiphon.families.kit.random_checkpoint import Making, checkpoint_maker, report_files
from antiphon.nn.random_weights import RandomTensor, random_values
from antiphon.nn.safetensors_index import Shape

TASKS = ("base", "custom_voice")
VOICE = "random"
_PITCH_HZ = 120.0  # in most frames
_QUIET = -3.0  # log magnitude
_INT32 = 6
_MEL_FRAMES_PER_TOKEN = 4


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
    for name, weight in tensors.items():
        stem = name.removesuffix(".weight")
        if weight.ndim < 3 or stem.startswith("source_downs"):
            parted[name] = weight
            continue
        parted[f"{stem}.parametrizations.weight.original0"] = weight.norm(dim=(1, 2), keepdim=True)
        parted[f"{stem}.parametrizations.weight.original1"] = weight
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


def write_encoders(path: Path, speaker_size: int, seed: int) -> None:
    """Write campplus.onnx and speech_tokenizer_v3.onnx to a directory."""
    random = np.random.default_rng(seed)
    weight = random.normal(0, 1 / math.sqrt(SPEAKER_MELS), (SPEAKER_MELS, speaker_size))
    (path / SPEAKER_NETWORK).write_bytes(_speaker(weight.astype(np.float32)).encode())
    (path / TOKEN_NETWORK).write_bytes(_tokens().encode())


def _speaker(weight: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> OnnxGraph:
    """Return a network from band energies ``[1, frames, 80]`` to a speaker vector."""
    nodes = (
        OnnxNode("Abs", ("input",), ("loud",), "abs"),
        OnnxNode("ReduceMean", ("loud",), ("mean",), "mean", {"axes": (1,), "keepdims": 0}),
        OnnxNode("MatMul", ("mean", "weight"), ("output",), "mix"),
    )
    inputs = {"input": value_info("input", FLOAT, [1, "frames", SPEAKER_MELS])}
    return OnnxGraph(nodes, {"weight": tensor("weight", weight)}, inputs, ("output",))


def _tokens() -> OnnxGraph:
    """Return a network whose tokens are the indices of the loudest bands, 25 per second."""
    pool = {"kernel_shape": (_MEL_FRAMES_PER_TOKEN,), "strides": (_MEL_FRAMES_PER_TOKEN,)}
    nodes = (
        OnnxNode("AveragePool", ("feats",), ("slow",), "pool", pool),
        OnnxNode("ArgMax", ("slow",), ("indices",), "loudest", {"axis": 1, "keepdims": 0}),
    )
    inputs = {
        "feats": value_info("feats", FLOAT, [1, WHISPER_MELS, "frames"]),
        "feats_length": value_info("feats_length", _INT32, [1]),
    }
    return OnnxGraph(nodes, {}, inputs, ("indices",))
