"""Whole checkpoints of random weights, made on top of the family's own files."""

import math
from pathlib import Path

from antiphon.families.voxcpm2.checkpoint import VAE_STEM, model_layout, vae_layout
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.sizes import make_checkpoint as without_weights
from antiphon.nn.safetensors_index import Shape
from tests.families.random_files import RandomTensor, write_tensors
from tests.families.whole_checkpoints import Whole, WholeCheckpoints


def write_weights(path: Path, making: Whole) -> None:
    """Write weights by the configuration in a directory; the AudioVAE's are always float32."""
    config = load_config(path)
    model = {name: _tensor(name, shape) for name, shape in model_layout(config).items()}
    vae = {name: _vae_tensor(name, shape) for name, shape in vae_layout(config.vae).items()}
    write_tensors(path, model, making.seed, making.dtype, shards=making.shards)
    write_tensors(path, vae, making.seed, "float32", stem=VAE_STEM)


make_checkpoint = WholeCheckpoints(without_weights, write_weights)


def _tensor(name: str, shape: Shape) -> RandomTensor:
    """Return a tensor that preserves the scale of its inputs, so that frames differ."""
    if "norm" in name:
        return RandomTensor(shape, 0.1, 1.0)
    if name.endswith("special_token"):
        return RandomTensor(shape, 1.0)
    if name.endswith(".bias"):
        return RandomTensor(shape, 0.1)
    if "embed_tokens" in name:
        return RandomTensor(shape, 0.1)
    return RandomTensor(shape, 1.2 / math.sqrt(shape[1]))


def _vae_tensor(name: str, shape: Shape) -> RandomTensor:
    if name.endswith(".alpha"):
        return RandomTensor(shape, 0.2, 1.0)
    if name.endswith("scale_embed.weight"):
        return RandomTensor(shape, 0.1, 1.0)
    if name.endswith("weight_g"):  # the norm of each output's weights
        gain = 0.3 if shape[0] == 1 or name.endswith(".block.3.weight_g") else 1.2
        return RandomTensor(shape, 0.05, gain)
    if name.endswith("weight_v"):
        return RandomTensor(shape, 1.0)
    return RandomTensor(shape, 0.1)
