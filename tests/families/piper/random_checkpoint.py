"""Writer of voices with random weights in Piper's layout."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.families.kit.formats.onnx_graph import (
    FLOAT,
    INT64,
    OnnxGraph,
    OnnxNode,
    tensor,
    value_info,
)
from tests.families.whole_checkpoints import Whole, whole_checkpoints

SIZES = ("tiny",)
TASKS = ("custom_voice",)
SAMPLES_PER_FRAME = 64
_NUM_SYMBOLS, _WIDTH, _FRAMES = 256, 4, 3.0
_SYMBOLS = "_^$ !'(),-.:;?abcdefhijklmnopqrstuvwxyzæçðøħŋœɐɑɒɓɔəɚɛɜɟɡɪɫɬɭɲɹɾʁʃʊʋʌʎʒʔˈˌːθᵻ\"̩"


@whole_checkpoints(sizes=SIZES, tasks=TASKS, vocabularies=(), dtypes=("float32",))
def make_checkpoint(path: Path, making: Whole) -> None:
    write_voice(path, "en_US-random-tiny", seed=making.seed)


def write_voice(
    directory: Path, name: str, *, seed: int = 0, num_speakers: int = 1, **changes: Any
) -> None:
    """Write one voice.

    ``changes`` are entries of the JSON file that replace or extend the default ones.
    """
    directory.mkdir(parents=True, exist_ok=True)
    config = {
        "audio": {"sample_rate": 16000, "quality": "x_low"},
        "espeak": {"voice": "en-us"},
        "inference": {"noise_scale": 0.667, "length_scale": 1, "noise_w": 0.8},
        "phoneme_type": "espeak",
        "phoneme_map": {},
        "phoneme_id_map": {symbol: [place] for place, symbol in enumerate(_SYMBOLS)},
        "num_symbols": _NUM_SYMBOLS,
        "num_speakers": num_speakers,
        "speaker_id_map": {f"speaker{n}": n for n in range(num_speakers)}
        if num_speakers > 1
        else {},
        "language": {"code": "en_US", "family": "en", "name_english": "English"},
        **changes,
    }
    network = _network(np.random.default_rng(seed), num_speakers)
    (directory / f"{name}.onnx").write_bytes(network.encode())
    text = json.dumps(config, ensure_ascii=False, indent=2)
    (directory / f"{name}.onnx.json").write_text(text, encoding="utf-8")


def _network(random: np.random.Generator, num_speakers: int) -> OnnxGraph:
    """Return a network with VITS's inputs, random draws, alignment and decoder."""
    weights: dict[str, NDArray[Any]] = {
        "zero": np.array(0, np.int64),
        "one": np.array(1, np.int64),
        "two": np.array(2, np.int64),
        "first": np.array([0], np.int64),
        "last": np.array([-1], np.int64),
        "one_f": np.array(1.0, np.float32),
        "zero_f": np.array(0.0, np.float32),
        "frames": np.array(_FRAMES, np.float32),
        "emb": random.normal(0, 1, (_NUM_SYMBOLS, _WIDTH)).astype(np.float32),
        "dec.conv_pre.weight": _kernel(random, _WIDTH, _WIDTH, 7),
        "dec.ups.0.weight": _kernel(random, _WIDTH, _WIDTH, 16),
        "dec.resblocks.0.convs.0.weight": _kernel(random, _WIDTH, _WIDTH, 3),
        "dec.ups.1.weight": _kernel(random, _WIDTH, _WIDTH, 16),
        "dec.conv_post.weight": _kernel(random, 1, _WIDTH, 7),
    }
    inputs = {
        "input": value_info("input", INT64, ["batch_size", "phonemes"]),
        "input_lengths": value_info("input_lengths", INT64, ["batch_size"]),
        "scales": value_info("scales", FLOAT, [3]),
    }
    nodes = [*_alignment(), *_decoder(has_speakers=num_speakers > 1)]
    if num_speakers > 1:
        weights["emb_g"] = random.normal(0, 1, (num_speakers, _WIDTH, 1)).astype(np.float32)
        inputs["sid"] = value_info("sid", INT64, ["batch_size"])
    tensors = {name: tensor(name, values) for name, values in weights.items()}
    return OnnxGraph(tuple(nodes), tensors, inputs, ("output",))


def _alignment() -> list[OnnxNode]:
    """Symbols to latents ``z``, ``[1, width, num_frames]``: each lasts some frames, which vary."""
    return [
        _node("Gather", "scales", "zero", "noise_scale", axis=0),
        _node("Gather", "scales", "one", "length_scale", axis=0),
        _node("Gather", "scales", "two", "noise_w", axis=0),
        # As in training, lengths mask what pads a batch; here there is one sentence.
        _node("Cast", "input_lengths", "lengths", to=FLOAT),
        _node("Div", "lengths", "lengths", "mask"),
        _node("Gather", "emb", "input", "x", axis=0),
        _node("Gather", "x", "zero", "x_line", axis=2),
        _node("RandomNormalLike", "x_line", "drawn_w", dtype=FLOAT),
        _node("Mul", "drawn_w", "noise_w", "varied"),
        _node("Abs", "varied", "more"),
        _node("Add", "more", "frames", "unscaled"),
        _node("Mul", "unscaled", "length_scale", "scaled"),
        _node("Mul", "scaled", "mask", "masked"),
        _node("Ceil", "masked", "durations"),
        _node("CumSum", "durations", "one", "ends"),
        _node("ReduceSum", "durations", "num_frames", keepdims=0),
        _node("Range", "zero_f", "num_frames", "one_f", "frame"),
        _node("Unsqueeze", "frame", "last", "frame_column"),
        _node("LessOrEqual", "ends", "frame_column", "is_past"),
        _node("Cast", "is_past", "past", to=INT64),
        _node("ReduceSum", "past", "last", "symbol", keepdims=0),
        _node("Squeeze", "x", "first", "x_rows"),
        _node("Gather", "x_rows", "symbol", "m_rows", axis=0),
        _node("Unsqueeze", "m_rows", "first", "m_batch"),
        _node("Transpose", "m_batch", "m_p", perm=(0, 2, 1)),
        _node("RandomNormalLike", "m_p", "drawn", dtype=FLOAT),
        _node("Mul", "drawn", "noise_scale", "noise"),
        _node("Add", "m_p", "noise", "z"),
    ]


def _decoder(*, has_speakers: bool) -> list[OnnxNode]:
    """Latents to samples: convolutions, two of them upsampling, and a condition on the speaker."""
    pre = "pre_g" if has_speakers else "pre"
    up: dict[str, Any] = {"kernel_shape": (16,), "strides": (8,), "pads": (4, 4)}
    cond = [_node("Gather", "emb_g", "sid", "g", axis=0), _node("Add", "pre", "g", pre)]
    return [
        _node("Conv", "z", "dec.conv_pre.weight", "pre", kernel_shape=(7,), pads=(3, 3)),
        *(cond if has_speakers else []),
        _node("LeakyRelu", pre, "a0", alpha=0.1),
        _node("ConvTranspose", "a0", "dec.ups.0.weight", "u0", **up),
        _node("LeakyRelu", "u0", "a1", alpha=0.1),
        _node(
            *("Conv", "a1", "dec.resblocks.0.convs.0.weight", "r0"),
            kernel_shape=(3,),
            dilations=(3,),
            pads=(3, 3),
        ),
        _node("Add", "u0", "r0", "u0r"),
        _node("LeakyRelu", "u0r", "a2", alpha=0.1),
        _node("ConvTranspose", "a2", "dec.ups.1.weight", "u1", **up),
        _node("LeakyRelu", "u1", "a3", alpha=0.1),
        _node("Conv", "a3", "dec.conv_post.weight", "post", kernel_shape=(7,), pads=(3, 3)),
        _node("Tanh", "post", "tanh"),
        _node("Unsqueeze", "tanh", "first", "output"),
    ]


def _node(op_type: str, *names: str, **attributes: int | float | tuple[int, ...]) -> OnnxNode:
    """Return an operation; the last name is that of its output."""
    *inputs, output = names
    return OnnxNode(op_type, tuple(inputs), (output,), output, attributes)


def _kernel(
    random: np.random.Generator, num_outputs: int, num_inputs: int, size: int
) -> NDArray[np.float32]:
    scale = 1.0 / np.sqrt(num_inputs * size)
    return random.normal(0, scale, (num_outputs, num_inputs, size)).astype(np.float32)
