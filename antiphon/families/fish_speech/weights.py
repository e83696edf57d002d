"""Readers of weights, in any of the published files and namings: both models, and the codec."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Unpack

import torch
from torch import Tensor

from antiphon.contracts.config_file import ConfigSection
from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.fish_speech.checkpoint import (
    CODEC_FILE,
    PICKLED_FILE,
    is_s2_name,
    layout_of,
    model_part,
    s2_name,
    tied,
    unread,
)
from antiphon.families.fish_speech.codec_schema import CodecSizes, codec_layout, read_sizes
from antiphon.families.fish_speech.config import FishSpeechConfig
from antiphon.families.kit.formats.torch_file import (
    StoredTensors,
    joined_weights,
    open_tensors,
    read_torch_file,
    state_dict_of,
)
from antiphon.nn.dummy_weights import DrawnTensors
from antiphon.nn.layers import Weights
from antiphon.nn.safetensors_index import Shape, read_directory
from antiphon.nn.weights import WeightOptions, check_tied, open_weights


class _Renamed(Mapping[str, Tensor]):
    """Tensors of an S2 file by S1's names."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def __getitem__(self, name: str) -> Tensor:
        return self._weights[s2_name(name)]

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and s2_name(name) in self._weights

    def __iter__(self) -> Iterator[str]:
        raise NotImplementedError("tensors are asked for by name")

    def __len__(self) -> int:
        return len(self._weights)


@contextmanager
def model_weights(
    path: Path, config: FishSpeechConfig, **how: Unpack[WeightOptions]
) -> Iterator[Weights]:
    """Open the slow and the fast model.

    Args:
        path: directory of the checkpoint.
        config: configuration of the checkpoint.
        how: further arguments of `open_weights`.

    Raises:
        ModelLoadError: on entering, if the files do not match the configuration; on leaving, if a
            tensor was not used.
    """
    is_dummy, file = how.get("is_dummy"), path / PICKLED_FILE
    if is_dummy or has_pickled_model(path):
        stored = None if is_dummy else StoredTensors(_read_pickled(file, config))
        with open_tensors(file, stored, layout_of(config), **how) as weights:
            yield weights
        return
    names = read_directory(path)
    check_tied(path, tied(config, names))
    part = model_part(path, config, names)
    with open_weights(part, **how) as weights:
        yield _Renamed(weights) if any(map(is_s2_name, part.layout)) else weights


def has_pickled_model(path: Path) -> bool:
    """Return whether a checkpoint's weights are S1's model.pth, without safetensors."""
    return (path / PICKLED_FILE).is_file() and not any(path.glob("model*.safetensors*"))


def _read_pickled(file: Path, config: FishSpeechConfig) -> Mapping[str, Tensor]:
    named = {name.removeprefix("model."): each for name, each in _read(file).items()}
    others = re.compile(unread(config))
    for head, embedding in tied(config, named).items():
        if embedding in named and not torch.equal(named[head], named[embedding]):
            raise ModelLoadError(f"{file}: tensors: '{head}' differs from '{embedding}'")
    return {name: each for name, each in named.items() if not others.fullmatch(name)}


def _read(file: Path) -> dict[str, Tensor]:
    error = ModelLoadError(f"{file}: cannot be read: it does not hold tensors by name")
    return state_dict_of(read_torch_file(file, is_mapped=True), error)


_TRAINED_AS = "generator."
"""Prefix of the codec in complete training files, which also hold a discriminator."""
_UNREAD_CODEC = re.compile(
    r".*\.(?:freqs_cis|causal_mask)|quantizer\.semantic_predictor_module\..*"
)
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
    tensors = _codec_tensors(file)
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


def codec_part(
    context: LoadContext, config: FishSpeechConfig, *names: str, like: Tensor
) -> tuple[CodecSizes, Mapping[str, Tensor]]:
    """Return the codec's sizes, and its tensors with a prefix in ``names``.

    Random ones have the sizes of ``codec_config`` in config.json, which published checkpoints do
    not have: by default those of their codec.

    Args:
        context: checkpoint and load format.
        config: configuration of the models that generate the codes.
        names: prefixes of the tensors' names.
        like: tensor of the wanted type, on the wanted device.

    Raises:
        ModelLoadError: see `read_codec`.
    """
    if not context.is_dummy:
        sizes, tensors = read_codec(context.checkpoint, config)
        return sizes, part_of(tensors, *names, like=like)
    section = ConfigSection.read(context.checkpoint / "config.json").section("codec_config", {})
    sizes = section.build(CodecSizes)
    drawn = DrawnTensors(codec_layout(sizes), like)
    return sizes, {
        name: drawn.get_tensor(name) for name in drawn.headers() if name.startswith(names)
    }


def part_of(tensors: Mapping[str, Tensor], *names: str, like: Tensor) -> dict[str, Tensor]:
    """Return the tensors with a prefix in ``names``, in the type and on the device of ``like``."""
    part = {name: each for name, each in tensors.items() if name.startswith(names)}
    joined = joined_weights({name: each.float() for name, each in part.items()})
    return {name: each.to(like) for name, each in joined.items()}


def _codec_tensors(file: Path) -> dict[str, Tensor]:
    named = _read(file)
    if any(_TRAINED_AS in name for name in named):
        named = {
            name.replace(_TRAINED_AS, ""): each
            for name, each in named.items()
            if _TRAINED_AS in name
        }
    return {name: each for name, each in named.items() if not _UNREAD_CODEC.fullmatch(name)}


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
