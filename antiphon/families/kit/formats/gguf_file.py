"""Metadata and tensor headers of a GGUF file, the format of llama.cpp, without its data."""

import math
import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from antiphon.errors import ModelLoadError

_MAGIC: Final = b"GGUF"
_VERSIONS: Final = (2, 3)
_ALIGNMENT: Final = 32
_STRING, _ARRAY = 8, 9
_NUMBERS: Final = {
    **dict(enumerate("BbHhIif?")),  # types 0 to 7, by their letters of the module struct
    **{10: "Q", 11: "q", 12: "d"},
}


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """Header of a tensor.

    Attributes:
        shape: sizes in the order of PyTorch, which is the reverse of the file's.
        start: offset of the first byte in the file.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int

    @property
    def num_values(self) -> int:
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class GGUFFile:
    """Contents of a file except for the tensors' values."""

    path: Path
    metadata: Mapping[str, Any]
    tensors: Mapping[str, GGUFTensor]
    num_bytes: int

    @property
    def architecture(self) -> str:
        """Name of the model's architecture, such as ``"llama"``."""
        return str(self.metadata.get("general.architecture"))

    def value(self, key: str, default: Any = None) -> Any:
        """Return a value of the architecture's own metadata, whose name precedes the key."""
        return self.metadata.get(f"{self.architecture}.{key}", default)

    def integer(self, key: str, default: int | None = None) -> int:
        """Return a whole number of the architecture's own metadata; raises ModelLoadError."""
        value = self.value(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise self.error(key, f"must be a whole number, not negative, but is {value!r}")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """Return a number, as the shortest decimal of its 32 bits; raises ModelLoadError."""
        value = self.value(key, default)
        if not isinstance(value, float) or not 0 < value < math.inf:
            raise self.error(key, f"must be a number above 0, but is {value!r}")
        return shortest(value)

    def error(self, key: str, message: str) -> ModelLoadError:
        """Return an error that names the file and a key of the architecture."""
        return ModelLoadError(f"{self.path}: '{self.architecture}.{key}' {message}")


def shortest(value: float) -> float:
    """Return the shortest decimal that a number of 32 bits stands for: 0.9 for 0.89999998."""
    return float(str(np.float32(value)))


def read_gguf(path: Path) -> GGUFFile:
    """Read the header of a file; raises ModelLoadError."""
    try:
        with path.open("rb") as stream:
            num_bytes = path.stat().st_size
            if stream.read(len(_MAGIC)) != _MAGIC:
                raise ModelLoadError(f"{path}: is no GGUF file")
            with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Reader(path, data).read(num_bytes)
    except OSError as error:
        raise ModelLoadError(f"{path}: cannot be read: {error.strerror}") from error
    except (struct.error, ValueError) as error:
        raise ModelLoadError(f"{path}: the header is damaged or cut off: {error}") from error


class _Reader:
    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self._path = path
        self._data = data
        self._position = len(_MAGIC)

    def read(self, num_bytes: int) -> GGUFFile:
        version = self._number("I")
        if version not in _VERSIONS:
            versions = " and ".join(map(str, _VERSIONS))
            raise ModelLoadError(
                f"{self._path}: GGUF version {version} is not supported; only {versions} are"
            )
        num_tensors, num_keys = self._number("Q"), self._number("Q")
        metadata: dict[str, Any] = {}
        for _ in range(num_keys):
            key = self._string()
            metadata[key] = self._value(self._number("I"))
        found = [self._tensor() for _ in range(num_tensors)]
        step = metadata.get("general.alignment", _ALIGNMENT)
        if not isinstance(step, int) or step < 1:
            raise ValueError(f"'general.alignment' is {step!r}")
        start = -(-self._position // step) * step
        tensors = {
            name: GGUFTensor(name, shape, kind, start + offset)
            for name, shape, kind, offset in found
        }
        return GGUFFile(self._path, metadata, tensors, num_bytes)

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        shape = self._numbers("Q", self._number("I"))
        return name, shape[::-1], self._number("I"), self._number("Q")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind != _ARRAY:
            return self._number(self._letter(kind))
        kind, size = self._number("I"), self._number("Q")
        if kind == _STRING:
            return [self._string() for _ in range(size)]
        return [*self._numbers(self._letter(kind), size)]

    def _letter(self, kind: int) -> str:
        if kind not in _NUMBERS:
            raise ValueError(f"there is no type {kind}")
        return _NUMBERS[kind]

    def _string(self) -> str:
        size = self._number("Q")
        self._check(size)
        start, self._position = self._position, self._position + size
        return self._data[start : start + size].decode("utf-8", "replace")

    def _number(self, letter: str) -> Any:
        return self._numbers(letter, 1)[0]

    def _numbers(self, letter: str, size: int) -> tuple[Any, ...]:
        self._check(size * struct.calcsize(f"<{letter}"))
        layout = struct.Struct(f"<{size}{letter}")
        start, self._position = self._position, self._position + layout.size
        return layout.unpack_from(self._data, start)

    def _check(self, size: int) -> None:
        if size > len(self._data) - self._position:
            raise ValueError(f"{size} bytes are to follow byte {self._position}")
