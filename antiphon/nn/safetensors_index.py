"""Tensors of safetensors files, read from their headers without loading data."""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from antiphon.contracts.config_file import quantized_error
from antiphon.errors import ModelLoadError

STEM = "model"
"""Usual prefix of a model's file names."""
DTYPES = ("F32", "BF16", "F16")
"""Number types of tensors that `antiphon.nn.weights` converts."""
Shape: TypeAlias = tuple[int, ...]
Found = TypeVar("Found")

_LENGTH_BYTES = 8
_MAX_HEADER_BYTES = 100_000_000
_MAX_NAMED = 8
_COMPARED_BYTES = 2**22


@dataclass(frozen=True, slots=True)
class TensorHeader:
    """Header entry of a tensor.

    Attributes:
        dtype: type in the format's spelling: ``F32``, ``BF16`` ...
        start: offset of the first byte in the file; 0: the tensor is computed from others.
    """

    name: str
    dtype: str
    shape: Shape
    num_bytes: int
    start: int

    @property
    def num_values(self) -> int:
        return math.prod(self.shape)

    @property
    def is_readable(self) -> bool:
        """Whether the tensor can be converted to the model's type."""
        return self.dtype in DTYPES


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsPart:
    """Tensors of a network, or several, in the safetensors files of a directory.

    Attributes:
        directory: folder with model.safetensors, or shards and an index.
        unused: regular expression of whole names that the network does not need.
        others: regular expression of whole names beside the layout, read elsewhere.
        stem: beginning of the files' names.
        aliases: names by which the network reads tensors that have others in the files.
    """

    directory: Path
    layout: Mapping[str, Shape]
    prefix: str = ""
    unused: str | None = None
    others: str | None = None
    stem: str = STEM
    aliases: Mapping[str, str] = field(default_factory=dict)


def tensor_files(directory: Path, stem: str = STEM) -> list[Path]:
    """Return model.safetensors or the shards of its index, there or not; raises ModelLoadError."""
    single = directory / f"{stem}.safetensors"
    index = directory / f"{stem}.safetensors.index.json"
    if single.is_file():
        return [single]
    if not index.is_file():
        if any(directory.glob("*.gguf")):
            raise quantized_error(directory, "GGUF")
        raise ModelLoadError(f"{directory}: there is neither {single.name} nor {index.name}")
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelLoadError(f"{index}: cannot read 'weight_map': {error!r}") from error
    for name in names:
        if not isinstance(name, str) or Path(name).name != name:
            raise ModelLoadError(f"{index}: {name!r} is not the name of a file beside it")
    return [directory / name for name in sorted(names)]


def read_tensor_headers(file: Path) -> list[TensorHeader]:
    """Return the tensors of a file, in the order of its header; raises ModelLoadError."""
    try:
        with file.open("rb") as stream:
            length = int.from_bytes(stream.read(_LENGTH_BYTES), "little")
            header = stream.read(min(length, _MAX_HEADER_BYTES))
        size = file.stat().st_size
        tensors = list(_described(json.loads(header), _LENGTH_BYTES + length))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no safetensors file"
        raise ModelLoadError(f"{file}: cannot be read: {reason}") from error
    wanted = _LENGTH_BYTES + length + sum(tensor.num_bytes for tensor in tensors)
    if size != wanted:
        raise ModelLoadError(f"{file}: has {size} bytes, but {wanted} by its header")
    return tensors


def _described(header: dict[str, Any], data_start: int) -> Iterator[TensorHeader]:
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            shape = tuple(int(size) for size in entry["shape"])
            yield TensorHeader(name, str(entry["dtype"]), shape, end - start, data_start + start)


def layout_problems(found: Mapping[str, Shape], layout: Mapping[str, Shape]) -> list[str]:
    """Return the differences between a checkpoint's tensors and its configuration's layout."""
    problems = []
    if missing := layout.keys() - found.keys():
        problems.append(f"missing: {some(missing)}")
    if unknown := found.keys() - layout.keys():
        problems.append(f"not part of such a model: {some(unknown)}")
    if shapes := [
        f"{name} is {list(found[name])}, not {list(layout[name])}"
        for name in layout.keys() & found.keys()
        if found[name] != layout[name]
    ]:
        problems.append(f"of another shape: {some(shapes)}")
    return problems


def tied_problems(
    found: Mapping[str, tuple[Path, TensorHeader]], tied: Mapping[str, str]
) -> list[str]:
    """Return the stored tensors that differ from those that a configuration ties them to.

    Args:
        tied: unused tensors, each with the tensor used in its place. Either may be absent from the
            files.

    Raises:
        ModelLoadError: a file cannot be read.
    """
    return [
        f"'{name}' differs from '{other}', but 'tie_word_embeddings' is true; if the checkpoint"
        " was trained with a head of its own, set it to false in config.json"
        for name, other in sorted(tied.items())
        if name in found and other in found and not _are_equal(found[name], found[other])
    ]


def _are_equal(one: tuple[Path, TensorHeader], other: tuple[Path, TensorHeader]) -> bool:
    """Compare two tensors by their bytes, up to the first difference."""
    (file, header), (other_file, other_header) = one, other
    if (header.dtype, header.shape) != (other_header.dtype, other_header.shape):
        return False
    if not header.start or not other_header.start:
        return False
    try:
        with file.open("rb") as stream, other_file.open("rb") as other_stream:
            stream.seek(header.start)
            other_stream.seek(other_header.start)
            for done in range(0, header.num_bytes, _COMPARED_BYTES):
                size = min(_COMPARED_BYTES, header.num_bytes - done)
                if stream.read(size) != other_stream.read(size):
                    return False
    except OSError as error:
        raise ModelLoadError(f"{file}: cannot be read: {error.strerror}") from error
    return True


def without(names: str | None, found: Mapping[str, Found]) -> dict[str, Found]:
    """Return the entries whose whole names do not match a regular expression."""
    skipped = re.compile(names or r"(?!)")
    return {name: each for name, each in found.items() if not skipped.fullmatch(name)}


def some(names: Iterable[str]) -> str:
    """Format names as a shortened list."""
    ordered = sorted(names)
    more = len(ordered) - _MAX_NAMED
    return ", ".join(ordered[:_MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
