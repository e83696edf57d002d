"""Reader of llm.pt, flow.pt and hift.pt: state dictionaries, checked against their layout."""

import logging
import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn.layers import Weights
from antiphon.nn.safetensors_index import Shape, layout_problems
from antiphon.nn.torch_file import joined_weights, read_torch_file

_log = logging.getLogger(__name__)


def read_tensors(
    file: Path,
    layout: Mapping[str, Shape],
    *,
    like: Tensor,
    unused: str = r"(?!)",
    prefix: str = "",
) -> Weights:
    """Return a file's tensors, with split weights merged from norm and direction.

    Args:
        file: path of a state dictionary.
        layout: names and shapes of the required tensors.
        like: tensor with the requested type and device.
        unused: regular expression of whole names that are not read.
        prefix: prefix removed from the names that begin with it.

    Raises:
        ModelLoadError: the file cannot be read, or has other contents.
    """
    tensors = stored_tensors(file, unused=unused, prefix=prefix)
    problems = layout_problems({name: tuple(each.shape) for name, each in tensors.items()}, layout)
    if problems:
        raise ModelLoadError(f"{file}: tensors {'; '.join(problems)}")
    return {name: each.to(like, copy=True) for name, each in tensors.items()}


def stored_tensors(file: Path, *, unused: str, prefix: str) -> dict[str, Tensor]:
    """Return a file's tensors as stored; arguments as in `read_tensors`.

    Raises:
        ModelLoadError: the file cannot be read, or has other contents.
    """
    values = read_torch_file(file, is_mapped=True)
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise ModelLoadError(f"{file}: is no dictionary of tensors")
    # Training stores its own progress beside the tensors.
    found = {name: each for name, each in values.items() if isinstance(each, Tensor)}
    if others := sorted(values.keys() - found.keys()):
        _log.info("%s: not tensors: %s", file, ", ".join(others[:5]))
    skip = re.compile(unused)
    found = {name.removeprefix(prefix): each for name, each in found.items()}
    found = {name: each for name, each in found.items() if not skip.fullmatch(name)}
    if odd := [name for name, each in found.items() if not each.is_floating_point()]:
        raise ModelLoadError(f"{file}: '{odd[0]}' is not of floating-point numbers")
    return joined_weights(found)
