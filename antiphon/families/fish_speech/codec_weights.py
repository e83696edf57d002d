"""Reader of codec.pth, one part of the codec at a time."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.families.fish_speech.checkpoint import CODEC_FILE
from antiphon.families.fish_speech.codec_schema import CodecSizes, read_sizes
from antiphon.families.fish_speech.config import FishSpeechConfig
from antiphon.nn.safetensors_index import Shape
from antiphon.nn.torch_file import joined_weights, read_torch_file

_TRAINED_AS = "generator."
"""Prefix of the codec in complete training files, which also hold a discriminator."""
_UNREAD = re.compile(r".*\.(?:freqs_cis|causal_mask)|quantizer\.semantic_predictor_module\..*")
_LENGTH = re.compile(r"(?P<name>.*)\.(?P<length>weight_g|parametrizations\.weight\.original0)")
_DIRECTIONS = {
    "weight_g": "weight_v",
    "parametrizations.weight.original0": "parametrizations.weight.original1",
}


def read_codec(path: Path, config: FishSpeechConfig) -> tuple[CodecSizes, Mapping[str, Tensor]]:
    """Open a checkpoint's codec; tensors are read when they are used.

    Args:
        path: directory of the checkpoint.
        config: configuration of the models that generate the codes.

    Returns:
        Sizes, and tensors, with weight-normalised ones still in two parts.

    Raises:
        ModelLoadError: the file is missing or damaged, its tensors are not a codec's, or the codec
            does not match these models.
    """
    file = path / CODEC_FILE
    if not file.is_file():
        raise ModelLoadError(f"{path}: there is no {CODEC_FILE}, which makes audio of codes")
    tensors = _tensors(file, read_torch_file(file, is_mapped=True))
    sizes = read_sizes(_shapes(file, tensors), str(file))
    if sizes.num_residual + 1 != config.num_codebooks:
        raise ModelLoadError(
            f"{file}: has {sizes.num_residual + 1} codebooks, and the model {config.num_codebooks}"
        )
    too_small = (
        sizes.semantic_codes < config.tokens.num_semantic,
        sizes.residual_codes < config.residual_codes,
    )
    if any(too_small):
        raise ModelLoadError(f"{file}: has smaller codebooks than the model")
    return sizes, tensors


def part_of(tensors: Mapping[str, Tensor], *names: str, like: Tensor) -> dict[str, Tensor]:
    """Return the tensors with a prefix in ``names``, in the type and on the device of ``like``."""
    part = {name: each for name, each in tensors.items() if name.startswith(names)}
    joined = joined_weights({name: each.float() for name, each in part.items()})
    return {name: each.to(like) for name, each in joined.items()}


def _tensors(file: Path, found: Any) -> dict[str, Tensor]:
    if isinstance(found, dict):
        found = found.get("state_dict", found)
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise ModelLoadError(f"{file}: cannot be read: it does not hold tensors by name")
    named = {str(name): each for name, each in found.items()}
    if any(_TRAINED_AS in name for name in named):
        named = {
            name.replace(_TRAINED_AS, ""): each
            for name, each in named.items()
            if _TRAINED_AS in name
        }
    return {name: each for name, each in named.items() if not _UNREAD.fullmatch(name)}


def _shapes(file: Path, tensors: Mapping[str, Tensor]) -> dict[str, Shape]:
    """Return the shapes of tensors, weight-normalised ones as one tensor each."""
    shapes = {name: tuple(each.shape) for name, each in tensors.items()}
    for name in tensors:
        if found := _LENGTH.fullmatch(name):
            direction = f"{found['name']}.{_DIRECTIONS[found['length']]}"
            if direction not in shapes:
                raise ModelLoadError(f"{file}: there is '{name}', but no '{direction}'")
            del shapes[name]
            shapes[f"{found['name']}.weight"] = shapes.pop(direction)
    return shapes
