"""Tensors within a GGUF file, by an index that names them as the model does.

Quantised values need the package ``gguf``, which converts all types of llama.cpp.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from antiphon.errors import ModelLoadError, how_to_install
from antiphon.nn.safetensors_index import TensorHeader

if TYPE_CHECKING:
    from torch import Tensor

INDEX: Final = "gguf_index.json"
"""File in a checkpoint's directory whose tensors are in a GGUF file elsewhere."""
_PLAIN: Final = {0: ("F32", 4), 1: ("F16", 2), 30: ("BF16", 2)}


@dataclass(frozen=True, slots=True, kw_only=True)
class GGUFHeader(TensorHeader):
    """Entry of a tensor in the index.

    Attributes:
        kind: number of the quantisation.
        heads: number of heads whose rotated pairs lie beside each other; 0: they are halves.
    """

    kind: int
    heads: int = 0

    @property
    def is_readable(self) -> bool:
        """Whether the tensor can be converted to the model's type."""
        return True


def gguf_header(name: str, kind: int, shape: tuple[int, ...], start: int, heads: int) -> GGUFHeader:
    """Return the header of a tensor; raises ModelLoadError for an unknown type."""
    if kind in _PLAIN:
        title, num_bytes = _PLAIN[kind]
        size = num_bytes * math.prod(shape)
    else:
        constants = _package(f"'{name}' is quantized").constants
        try:
            quantization = constants.GGMLQuantizationType(kind)
        except ValueError as error:
            raise ModelLoadError(f"'{name}': there is no GGUF type {kind}") from error
        title = f"{quantization.name} (GGUF)"
        num_values, num_bytes = constants.GGML_QUANT_SIZES[quantization]
        if not shape or shape[-1] % num_values:
            raise ModelLoadError(f"'{name}': {list(shape)} is not in blocks of {num_values}")
        size = math.prod(shape) // num_values * num_bytes
    return GGUFHeader(name, title, shape, size, start, kind=kind, heads=heads)


def write_index(folder: Path, file: Path, headers: Mapping[str, GGUFHeader]) -> None:
    tensors = {
        name: [each.kind, list(each.shape), each.start, each.heads]
        for name, each in headers.items()
    }
    index = {"file": str(file), "bytes": file.stat().st_size, "tensors": tensors}
    (folder / INDEX).write_text(json.dumps(index), encoding="utf-8")


def read_index(folder: Path) -> dict[str, tuple[Path, TensorHeader]]:
    """Return the tensors of a directory's index, each with the GGUF file; raises ModelLoadError."""
    try:
        index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        file = Path(index["file"])
        num_bytes, expected = file.stat().st_size, index["bytes"]
        headers: dict[str, tuple[Path, TensorHeader]] = {
            name: (file, gguf_header(name, kind, tuple(shape), start, heads))
            for name, (kind, shape, start, heads) in index["tensors"].items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelLoadError(f"{folder / INDEX}: cannot be read: {error}") from error
    if num_bytes != expected:
        raise ModelLoadError(f"{file}: has {num_bytes} bytes, no longer {expected}")
    return headers


class GGUFTensors:
    """Values of a file's tensors."""

    def __init__(self, file: Path, headers: Mapping[str, GGUFHeader]) -> None:
        """Store the headers, and open the file at each access."""
        self._file = file
        self._headers = headers

    def get_tensor(self, name: str) -> "Tensor":
        """Return a tensor in float32, rows of rotated heads in halves."""
        import torch

        header = self._headers[name]
        data = np.fromfile(self._file, np.uint8, header.num_bytes, offset=header.start)
        values = _values(header, data)
        if header.heads:
            pairs = values.reshape(header.heads, -1, 2, *header.shape[1:])
            values = np.ascontiguousarray(pairs.swapaxes(1, 2))
        return torch.from_numpy(values.reshape(header.shape))

    def rows(self, name: str) -> "GGUFRows":
        """Return a matrix of which only rows that are read are loaded."""
        return GGUFRows(self._file, self._headers[name])


class GGUFRows:
    """Rows of a matrix in a file."""

    def __init__(self, file: Path, header: GGUFHeader) -> None:
        """Map the matrix into memory."""
        self._header = header
        data = np.memmap(file, np.uint8, "r", header.start, header.num_bytes)
        self._data = data.reshape(len(self), -1)

    def __len__(self) -> int:
        return self._header.shape[0]

    def __getitem__(self, ids: "Tensor") -> "Tensor":
        """Return rows in float32."""
        import torch

        values = _values(self._header, self._data[ids.numpy()])
        return torch.from_numpy(values.reshape(*ids.shape, -1))


def _values(header: GGUFHeader, data: "np.ndarray[Any, np.dtype[np.uint8]]") -> Any:
    data = np.ascontiguousarray(data).reshape(-1, header.num_bytes // math.prod(header.shape[:-1]))
    if header.dtype == "F32":
        return data.view(np.float32)
    if header.dtype == "F16":
        return data.view(np.float16).astype(np.float32)
    if header.dtype == "BF16":
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
    package = _package(f"'{header.name}' is quantized")
    try:
        return package.dequantize(data, package.GGMLQuantizationType(header.kind))
    except NotImplementedError as error:
        raise ModelLoadError(f"'{header.name}': {header.dtype} cannot be unpacked") from error


def _package(reason: str) -> Any:
    try:
        import gguf
    except ModuleNotFoundError as error:
        message = f"{reason}, and needs the package 'gguf': {how_to_install('gguf')}"
        raise ModelLoadError(message) from error
    return gguf
