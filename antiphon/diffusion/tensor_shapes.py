"""Compares the tensors of a component's files with those of its configuration, and reads none."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import diffusers
import torch
import transformers

from antiphon.diffusion.loading_faults import read_folder
from antiphon.errors import ModelLoadError
from antiphon.nn.safetensors_index import TensorHeader, some


def shape_problems(folder: Path, kind: str, headers: Iterable[TensorHeader]) -> list[str]:
    """Return the tensors of a component whose shapes differ from its configuration.

    Names are not compared: the libraries load files of older versions of theirs under new names.

    Args:
        kind: class of the component in diffusers or transformers.
    """

    def build() -> dict[str, torch.Size]:
        with torch.device("meta"):
            module = network_of(folder, kind)
        return {name: tensor.shape for name, tensor in module.state_dict().items()}

    try:
        expected = read_folder(folder, build)
    except ModelLoadError as error:
        return [error.message]
    wrong = [
        f"{header.name} is {list(header.shape)}, not {list(expected[header.name])}"
        for header in headers
        if header.name in expected and tuple(header.shape) != tuple(expected[header.name])
    ]
    return [f"{folder}: tensors of another shape: {some(wrong)}"] if wrong else []


def network_of(folder: Path, kind: str) -> Any:
    """Build a network by the configuration in a folder, with initial weights."""
    if hasattr(diffusers, kind):
        network = getattr(diffusers, kind)
        return network.from_config(network.load_config(str(folder), local_files_only=True))
    network = getattr(transformers, kind)
    return network(network.config_class.from_pretrained(str(folder), local_files_only=True))
