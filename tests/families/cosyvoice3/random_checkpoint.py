"""Writer of checkpoints with random weights and networks in the official layout."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from antiphon.families.cosyvoice3.checkpoint import TEXT_PREFIX, parts
from antiphon.families.cosyvoice3.config import (
    CONFIG_FILE,
    SPEAKER_NETWORK,
    TOKEN_NETWORK,
    load_config,
)
from antiphon.families.cosyvoice3.sizes import VOICE
from antiphon.families.cosyvoice3.sizes import make_checkpoint as without_weights
from antiphon.families.cosyvoice3.voice_encoder import SPEAKER_MELS, WHISPER_MELS
from antiphon.families.cosyvoice3.voices import VOICES_FILE
from antiphon.families.kit.formats.onnx_graph import FLOAT, OnnxGraph, OnnxNode, tensor, value_info
from antiphon.nn.safetensors_index import Shape
from tests.families.random_files import RandomTensor
from tests.families.whole_checkpoints import Whole, WholeCheckpoints

TEMPLATE = Path(__file__).with_name("cosyvoice3.yaml")
"""The published file, with names for the sizes that differ."""
_PITCH_HZ = 120.0  # in most frames
_QUIET = -3.0  # log magnitude
_INT32 = 6
_MEL_FRAMES_PER_TOKEN = 4


def write_weights(path: Path, making: Whole) -> None:
    """Write weights by the configuration in a directory, one file per network."""
    seed, config = making.seed, load_config(path)
    sizes = json.loads((path / CONFIG_FILE).read_text(encoding="utf-8"))
    (path / CONFIG_FILE).write_text(published_yaml(sizes), encoding="utf-8")
    assert load_config(path) == config, "the published form has the same sizes"
    language, flow, vocoder = parts(path, config)
    torch.save(_drawn(language.layout, seed), language.file)
    torch.save(_drawn(flow.layout, seed), flow.file)
    torch.save(_parted(_drawn(vocoder.layout, seed)), vocoder.file)
    write_encoders(path, config.flow.speaker_size, seed)
    if making.task == "custom_voice":
        speaker = _tensor("speaker", RandomTensor((1, config.flow.speaker_size), 1.0), seed)
        torch.save({VOICE: {"embedding": speaker}}, path / VOICES_FILE)


make_checkpoint = WholeCheckpoints(without_weights, write_weights)


def published_yaml(sizes: Mapping[str, Any]) -> str:
    """Return cosyvoice3.yaml with references and tags, as published, from its values."""
    flow, vocoder = sizes["flow"], sizes["hift"]
    estimator = flow["decoder"]["estimator"]
    return TEMPLATE.read_text(encoding="utf-8").format(
        width=sizes["llm"]["llm_input_size"],
        look_ahead_channels=flow["pre_lookahead_layer"]["channels"],
        flow_width=estimator["dim"],
        flow_layers=estimator["depth"],
        flow_heads=estimator["heads"],
        flow_head_dim=estimator["dim_head"],
        vocoder_channels=vocoder["base_channels"],
        pitch_channels=vocoder["f0_predictor"]["cond_channels"],
    )


def _drawn(layout: Mapping[str, Shape], seed: int) -> dict[str, Tensor]:
    return {name: _tensor(name, _random(name, shape), seed) for name, shape in layout.items()}


def _tensor(name: str, wanted: RandomTensor, seed: int) -> Tensor:
    return torch.from_numpy(wanted.values(name, seed))


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
    if name == "llm_decoder.weight" or name.startswith(TEXT_PREFIX):
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
