"""Codecs of random weights: the recorded one, and one so small that properties are checked fast."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.families.kit.layouts import Layout
from antiphon.families.qwen3_tts.checkpoint import codec_layout, main_layout
from antiphon.families.qwen3_tts.config import Qwen3TTSConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from tests.families.qwen3_tts.random_checkpoint import make_full_checkpoint
from tests.families.qwen3_tts.random_recipe import recipe

RECORDED = Path(__file__).parent / "fixtures" / "codec.npz"
MAIN_SEED, CODEC_SEED = 0, 1
"""What `make_full_checkpoint` gives the two files of the checkpoint that was recorded."""


@cache
def tiny_config() -> Qwen3TTSConfig:
    with TemporaryDirectory() as directory:
        make_full_checkpoint(Path(directory), size="tiny", task="base")
        return load_config(Path(directory))


@cache
def small_config() -> Qwen3TTSConfig:
    """Return a configuration whose decoder forgets within 40 frames and makes 64 samples each."""
    config = tiny_config()
    decoder = replace(
        config.codec.decoder,
        transformer=replace(config.codec.decoder.transformer, num_layers=2, window=6),
        codebook_size=32,
        decoder_dim=32,
        upsample_rates=(2, 2, 2, 2),
    )
    return replace(config, codec=replace(config.codec, decoder=decoder))


@cache
def codec_weights(config_of: Any) -> dict[str, Tensor]:
    """Return the codec's tensors for one of the configurations above."""
    config = config_of()
    return _weights(codec_layout(config), config, CODEC_SEED)


@cache
def speaker_weights() -> dict[str, Tensor]:
    config = tiny_config()
    layout = main_layout(config).items()
    own = {name: shape for name, shape in layout if name.startswith("speaker_encoder.")}
    return _weights(own, config, MAIN_SEED)


@cache
def recorded() -> dict[str, NDArray[Any]]:
    """Return what the official code made of the tiny checkpoint."""
    with np.load(RECORDED) as arrays:
        return dict(arrays)


def reference_audio() -> Tensor:
    """Return the recording that the official code heard: a clip, repeated."""
    num_samples = 300_007
    clip = np.resize(recorded()["clip"], num_samples)
    return torch.from_numpy(clip.astype(np.float32) / 32768)


def _weights(layout: Layout, config: Qwen3TTSConfig, seed: int) -> dict[str, Tensor]:
    weights = {}
    for name, tensor in recipe(layout, config).items():
        weights[name] = torch.from_numpy(tensor.values(name, seed))
    return weights
