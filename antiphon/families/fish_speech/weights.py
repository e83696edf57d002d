"""Reader of both models' weights, in any of the published files and namings."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.families.fish_speech.checkpoint import (
    PICKLED_FILE,
    is_s2_name,
    layout_of,
    s2_name,
    tied,
    unread,
)
from antiphon.families.fish_speech.config import FishSpeechConfig
from antiphon.nn.layers import Weights
from antiphon.nn.safetensors_index import layout_problems, read_directory
from antiphon.nn.torch_file import read_torch_file
from antiphon.nn.weights import Progress, check_tied, open_weights


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


class _Pickled(Mapping[str, Tensor]):
    """Tensors of a `torch.save` file, converted on access."""

    def __init__(self, tensors: Mapping[str, Tensor], like: Tensor) -> None:
        self._tensors = tensors
        self._like = like

    def __getitem__(self, name: str) -> Tensor:
        return self._tensors[name].to(self._like, copy=True)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


@contextmanager
def model_weights(
    path: Path, config: FishSpeechConfig, *, like: Tensor, progress: Progress | None = None
) -> Iterator[Weights]:
    """Open the slow and the fast model.

    Args:
        path: directory of the checkpoint.
        config: configuration of the checkpoint.
        like: tensor with the requested type and device.
        progress: callback run for every tensor, where files are read one by one.

    Raises:
        ModelLoadError: on entering, if the files do not match the configuration; on leaving, if a
            tensor was not used.
    """
    layout = layout_of(config)
    if has_pickled_model(path):
        yield _Pickled(_read_pickled(path / PICKLED_FILE, config), like)
        return
    names = read_directory(path)
    check_tied(path, tied(config, names))
    is_s2 = any(map(is_s2_name, names))
    if is_s2:
        layout = {s2_name(name): shape for name, shape in layout.items()}
    opened = open_weights(path, layout, like=like, others=unread(config), progress=progress)
    with opened as weights:
        yield _Renamed(weights) if is_s2 else weights


def has_pickled_model(path: Path) -> bool:
    """Return whether a checkpoint's weights are S1's model.pth, without safetensors."""
    return (path / PICKLED_FILE).is_file() and not any(path.glob("model*.safetensors*"))


def _read_pickled(file: Path, config: FishSpeechConfig) -> Mapping[str, Tensor]:
    found: Any = read_torch_file(file, is_mapped=True)
    if isinstance(found, dict):
        found = found.get("state_dict", found)
    if not isinstance(found, dict) or not all(isinstance(each, Tensor) for each in found.values()):
        raise ModelLoadError(f"{file}: cannot be read: it does not hold tensors by name")
    others = re.compile(unread(config))
    named = {str(name).removeprefix("model."): each for name, each in found.items()}
    for head, embedding in tied(config, named).items():
        if embedding in named and not torch.equal(named[head], named[embedding]):
            raise ModelLoadError(f"{file}: tensors: '{head}' differs from '{embedding}'")
    tensors = {name: each for name, each in named.items() if not others.fullmatch(name)}
    shapes = {name: tuple(each.shape) for name, each in tensors.items()}
    if problems := layout_problems(shapes, layout_of(config)):
        raise ModelLoadError(f"{file}: tensors {'; '.join(problems)}")
    return tensors
