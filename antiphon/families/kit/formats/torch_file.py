"""Weights in `torch.save` files, read as data without running code of the file."""

import logging
import pickle
import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

import torch
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn.dummy_weights import DrawnTensors
from antiphon.nn.layers import Weights
from antiphon.nn.safetensors_index import Shape, TensorHeader, layout_problems
from antiphon.nn.weights import LazyWeights, WeightOptions

_log = logging.getLogger(__name__)

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
    """Return the contents of a file: tensors on the CPU, in containers; raises ModelLoadError.

    Args:
        is_mapped: whether tensors are memory-mapped until used, which files of PyTorch before 1.6
            do not support.
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
                normed = torch._weight_norm(vector.float(), length.float(), 0)
                joined[f"{found[1]}.weight"] = normed
    return joined


def state_dict_of(content: Any, error: ModelLoadError) -> dict[str, Tensor]:
    """Return the tensors of a file by name, or raise ``error``.

    Args:
        content: contents of the file, which some programs store as "state_dict" of a dictionary.
        error: raised if these are not tensors by name.
    """
    if isinstance(content, dict):
        content = content.get("state_dict", content)
    if not isinstance(content, dict) or not all(
        isinstance(each, Tensor) for each in content.values()
    ):
        raise error
    return {str(name): each for name, each in content.items()}


@dataclass(frozen=True, slots=True)
class StoredTensors:
    """Tensors of a state dictionary by name."""

    tensors: Mapping[str, Tensor]

    def headers(self) -> dict[str, TensorHeader]:
        """Return the headers of a safetensors file of these tensors, without number types."""
        return {
            name: TensorHeader(name, "", tuple(each.shape), each.nbytes, 0)
            for name, each in self.tensors.items()
        }

    def get_tensor(self, name: str) -> Tensor:
        return self.tensors[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchPart:
    """Tensors of a network in a `torch.save` file.

    Attributes:
        file: path of a state dictionary, which may be the value of "state_dict"; other values
            beside its tensors, as of training, are ignored.
        layout: names and shapes of all tensors, with weight-normalised ones merged.
        prefix: prefix removed from the names that begin with it.
        unused: regular expression of whole names that the network does not need.
    """

    file: Path
    layout: Mapping[str, Shape]
    prefix: str = ""
    unused: str = r"(?!)"

    def read(self) -> StoredTensors:
        """Return the tensors of the file, also those outside the layout; raises ModelLoadError."""
        values = read_torch_file(self.file, is_mapped=True)
        if isinstance(values, dict):
            values = values.get("state_dict", values)
        if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
            raise ModelLoadError(f"{self.file}: is no dictionary of tensors")
        found = {name: each for name, each in values.items() if isinstance(each, Tensor)}
        if others := sorted(values.keys() - found.keys()):
            _log.info("%s: not tensors: %s", self.file, ", ".join(others[:5]))
        named = {name.removeprefix(self.prefix): each for name, each in found.items()}
        used = {name: each for name, each in named.items() if not re.fullmatch(self.unused, name)}
        if odd := [name for name, each in used.items() if not each.is_floating_point()]:
            raise ModelLoadError(f"{self.file}: '{odd[0]}' is not of floating-point numbers")
        return StoredTensors(joined_weights(used))

    def open(self, **how: Unpack[WeightOptions]) -> AbstractContextManager[Weights]:
        """Open the tensors, each of which must be used; see `open_tensors`."""
        source = None if how.get("is_dummy") else self.read()
        return open_tensors(self.file, source, self.layout, **how)


@contextmanager
def open_tensors(
    file: Path,
    source: StoredTensors | None,
    layout: Mapping[str, Shape],
    **how: Unpack[WeightOptions],
) -> Iterator[Weights]:
    """Check tensors against their layout, and yield them.

    Args:
        source: the tensors; ``None``: they are drawn at random.
        how: further arguments, as of `antiphon.nn.weights.open_weights`.

    Raises:
        ModelLoadError: on entering, the tensors do not match the layout; on leaving, a tensor was
            not used.
    """
    found = source or DrawnTensors(layout, how["like"])
    tensors = {name: (header, found) for name, header in found.headers().items()}
    shapes = {name: header.shape for name, (header, _) in tensors.items()}
    if problems := layout_problems(shapes, layout):
        raise ModelLoadError(f"{file}: tensors {'; '.join(problems)}")
    weights = LazyWeights(file, tensors, how)
    yield weights
    weights.check_all_read()
