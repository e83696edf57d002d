"""Reader of a checkpoint's parts: the model, and encoder or decoder of the AudioVAE.

Every tensor of a part must be used. The AudioVAE is published as a PyTorch file.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.families.voxcpm2.checkpoint import (
    ENCODER_UNUSED,
    MODEL_OTHERS,
    VAE_OTHERS,
    VAE_STEM,
    model_layout,
    vae_layout,
)
from antiphon.families.voxcpm2.config import AudioVAEConfig, VoxCPM2Config
from antiphon.nn.layers import Weights
from antiphon.nn.safetensors_index import layout_problems
from antiphon.nn.torch_file import joined_weights, read_torch_file
from antiphon.nn.weights import WeightOptions, open_weights

PTH = f"{VAE_STEM}.pth"
_NORMED = ".weight_v"


@contextmanager
def model_weights(
    path: Path, config: VoxCPM2Config, **how: Unpack[WeightOptions]
) -> Iterator[Weights]:
    """Open the language models and the networks inside a step.

    Args:
        path: directory of the checkpoint.
        config: configuration of the checkpoint.
        how: further arguments of `open_weights`.

    Raises:
        ModelLoadError: on entering, if the files do not match the configuration; on leaving, if a
            tensor was not used.
    """
    layout = model_layout(config)
    with open_weights(path, layout, others=MODEL_OTHERS, **how) as weights:
        yield weights


def vae_weights(
    path: Path, config: AudioVAEConfig, part: str, **how: Unpack[WeightOptions]
) -> Weights:
    """Return the AudioVAE's encoder or decoder, with weight normalisation merged.

    ``part`` is "encoder." or "decoder.". A convolution ``name`` is at ``name.conv.weight`` and
    ``name.conv.bias``.

    Raises:
        ModelLoadError: the files do not match the configuration.
    """
    layout = vae_layout(config)
    is_pth = not (path / f"{VAE_STEM}.safetensors").is_file() and (path / PTH).is_file()
    if is_pth and not how.get("is_dummy"):
        found = read_pth(path / PTH)
        shapes = {name: tuple(each.shape) for name, each in found.items()}
        if problems := layout_problems(shapes, layout):
            raise ModelLoadError(f"{path / PTH}: tensors {'; '.join(problems)}")
        moved = {
            name: each.to(how["like"]) for name, each in found.items() if name.startswith(part)
        }
        return _multiplied(moved)
    with open_weights(
        path, layout, part=part, unused=ENCODER_UNUSED, others=VAE_OTHERS, stem=VAE_STEM, **how
    ) as weights:
        return _multiplied(weights)


def read_pth(file: Path) -> dict[str, Tensor]:
    """Return the tensors of a PyTorch file by name; no other object in it is built.

    Raises:
        ModelLoadError: the file is not a PyTorch file of tensors.
    """
    content = read_torch_file(file)
    content = content.get("state_dict", content) if isinstance(content, dict) else None
    if not isinstance(content, dict) or not all(
        isinstance(each, Tensor) for each in content.values()
    ):
        raise ModelLoadError(f"{file}: must hold tensors by name")
    other = re.compile(VAE_OTHERS)
    return {str(name): each for name, each in content.items() if not other.fullmatch(str(name))}


def _multiplied(weights: Weights) -> Weights:
    """Merge direction and norm of convolution weights, and rename them as layers expect."""
    convolutions = {name.removesuffix(_NORMED) for name in weights if name.endswith(_NORMED)}
    result: dict[str, Tensor] = {}
    for name, tensor in joined_weights(weights).items():
        stem, _, kind = name.rpartition(".")
        result[f"{stem}.conv.{kind}" if stem in convolutions else name] = tensor
    return result
