"""Reads a checkpoint's tensors one by one, when they are asked for, and accounts for every one.

Building a model from `LazyWeights` needs the memory of the model and of the few tensors that are
being joined or folded, wherever it lives and whatever its number type.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn.layers import Weights
from antiphon.nn.safetensors_index import Shape, layout_problems, some, tensor_files

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the bytes read so far and the bytes in all."""

_BYTES = {"F32": 4, "BF16": 2, "F16": 2}


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor as its file describes it."""

    shape: Shape
    num_bytes: int
    handle: Any


class TensorFiles:
    """The open safetensors files of a directory, one or several."""

    def __init__(self, directory: Path, tensors: Mapping[str, StoredTensor]) -> None:
        self.directory = directory
        self.tensors = tensors

    @classmethod
    @contextmanager
    def open(cls, directory: Path) -> Iterator["TensorFiles"]:
        """Open model.safetensors, or the shards that its index lists.

        Raises:
            ModelLoadError: a file is missing, broken, or does not hold what the index says.
        """
        with ExitStack() as stack:
            tensors: dict[str, StoredTensor] = {}
            for file in tensor_files(directory):
                found = _read_header(file, stack)
                if twice := tensors.keys() & found.keys():
                    raise ModelLoadError(f"{file}: another file holds {some(twice)} too")
                tensors |= found
            yield cls(directory, tensors)

    def check(self, layout: Mapping[str, Shape]) -> None:
        """Compare with the names and shapes that a checkpoint of its configuration has.

        Raises:
            ModelLoadError: naming tensors that are missing, not known, or of another shape.
        """
        shapes = {name: stored.shape for name, stored in self.tensors.items()}
        problems = layout_problems(shapes, layout)
        if problems:
            raise ModelLoadError(f"{self.directory}: tensors {'; '.join(problems)}")


class LazyWeights(Mapping[str, Tensor]):
    """Tensors by name, read anew at each access and converted on the way."""

    def __init__(
        self,
        files: TensorFiles,
        names: Sequence[str],
        *,
        device: torch.device,
        dtype: torch.dtype,
        progress: Progress | None = None,
    ) -> None:
        self._files = files
        self._unread = dict.fromkeys(names)
        self._names = frozenset(names)
        self._device = device
        self._dtype = dtype
        self._progress = progress
        self._num_bytes = sum(files.tensors[name].num_bytes for name in names)
        self._num_bytes_read = 0

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        stored = self._files.tensors[name]
        # Moved first and converted there; copied, so that no tensor hangs on the open file.
        moved: Tensor = stored.handle.get_tensor(name).to(self._device)
        tensor = moved.to(self._dtype, copy=self._device.type == "cpu")
        if name in self._unread:
            del self._unread[name]
            self._num_bytes_read += stored.num_bytes
            if self._progress is not None:
                self._progress(self._num_bytes_read, self._num_bytes)
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def check_all_read(self) -> None:
        """Refuse a model that left something out.

        Raises:
            ModelLoadError: naming what was never read.
        """
        if self._unread:
            raise ModelLoadError(f"{self._files.directory}: never read: {some(self._unread)}")


@contextmanager
def open_weights(
    directory: Path,
    layout: Mapping[str, Shape],
    *,
    like: Tensor,
    part: str = "",
    unused: str | None = None,
    progress: Progress | None = None,
) -> Iterator[Weights]:
    """Check a directory against its layout, and give the tensors of one part of it to a builder.

    On leaving, every tensor of the part must have been read.

    Args:
        directory: with model.safetensors, or shards and an index.
        layout: names and shapes of all its tensors.
        like: a tensor of the wanted type, on the wanted device.
        part: what the names of the part begin with.
        unused: a regular expression for whole names that the part does not need.
        progress: told of every tensor.

    Raises:
        ModelLoadError: the files are not what the layout says, or a tensor was left out.
    """
    skip = re.compile(unused or r"(?!)")
    with TensorFiles.open(directory) as files:
        files.check(layout)
        names = [name for name in layout if name.startswith(part) and not skip.fullmatch(name)]
        weights = LazyWeights(files, names, device=like.device, dtype=like.dtype, progress=progress)
        yield weights
        weights.check_all_read()


def _read_header(file: Path, stack: ExitStack) -> dict[str, StoredTensor]:
    try:
        handle = stack.enter_context(safe_open(file, framework="pt"))
    except (OSError, SafetensorError) as error:
        raise ModelLoadError(f"{file}: cannot be read: {error}") from error
    return {name: _describe(file, name, handle) for name in handle.keys()}  # noqa: SIM118


def _describe(file: Path, name: str, handle: Any) -> StoredTensor:
    stored = handle.get_slice(name)
    dtype = stored.get_dtype()
    if dtype not in _BYTES:
        raise ModelLoadError(f"{file}: '{name}' is {dtype}; only {', '.join(_BYTES)} are supported")
    shape = tuple(stored.get_shape())
    return StoredTensor(shape, torch.Size(shape).numel() * _BYTES[dtype], handle)
