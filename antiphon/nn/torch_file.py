"""Weights in `torch.save` files, read as data without running code of the file."""

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import ModelLoadError

# Weight norm stores a direction and a length, in PyTorch's older or newer spelling.
_LENGTHS = (
    (re.compile(r"(.*)\.weight_g"), ".weight_v"),
    (
        re.compile(r"(.*)\.parametrizations\.weight\.original0"),
        ".parametrizations.weight.original1",
    ),
)
_UNREADABLE = (
    *(OSError, RuntimeError, AttributeError),
    *(EOFError, IndexError, pickle.UnpicklingError),
)


def read_torch_file(file: Path, *, is_mapped: bool = False) -> Any:
    """Return the contents of a file: tensors on the CPU, in containers.

    Args:
        is_mapped: whether tensors are memory-mapped until used, which files of PyTorch before 1.6
            do not support.

    Raises:
        ModelLoadError: the file is missing, damaged, or contains more than data.
    """
    try:
        return torch.load(file, map_location="cpu", weights_only=True, mmap=is_mapped)
    except _UNREADABLE as error:
        raise ModelLoadError(f"{file}: cannot be read: {error}") from error


def joined_weights(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return weight-normed tensors (`torch.nn.utils.weight_norm`) as one tensor each."""
    joined = dict(tensors)
    for name in tensors:
        for pattern, direction in _LENGTHS:
            found = pattern.fullmatch(name)
            if found and f"{found[1]}{direction}" in joined:
                length, vector = joined.pop(name), joined.pop(f"{found[1]}{direction}")
                joined[f"{found[1]}.weight"] = torch._weight_norm(vector, length, 0)
    return joined
