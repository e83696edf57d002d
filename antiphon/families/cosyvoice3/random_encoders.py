"""Random ONNX networks with the inputs and outputs of the published voice encoders."""

import math
from pathlib import Path

import numpy as np

from antiphon.families.cosyvoice3.features import SPEAKER_MELS, WHISPER_MELS
from antiphon.families.cosyvoice3.voice_encoder_files import SPEAKER_NETWORK, TOKEN_NETWORK
from antiphon.families.kit.onnx_graph import FLOAT, OnnxGraph, OnnxNode, tensor, value_info

_INT32 = 6
_MEL_FRAMES_PER_TOKEN = 4


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
