"""Lazy reading of a checkpoint's tensors, with a check that each is used.

Building a model from `LazyWeights` needs the memory of the model and of the few tensors that are
being joined or folded, on any device and for any number type.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Required, TypeAlias, TypedDict, Unpack

from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn.cpu.heap import trim_heap
from antiphon.nn.dummy_weights import DrawnTensors
from antiphon.nn.layers import Weights
from antiphon.nn.quantized.directory import read_directory
from antiphon.nn.quantized.open_tensors import open_tensors_of
from antiphon.nn.safetensors_index import (
    DTYPES,
    TensorHeader,
    WeightsPart,
    layout_problems,
    some,
    tied_problems,
    without,
)

Progress: TypeAlias = Callable[[int, int], None]
"""Callback with the bytes read so far and the total."""


class WeightOptions(TypedDict, total=False):
    """Arguments of `open_weights` that depend on the load context.

    Attributes:
        like: tensor of the wanted type, on the wanted device.
        progress: callback after every tensor.
        is_dummy: whether tensors are drawn at random, and no file is needed.
        quantize: type of the weights of products, such as ``"int8"``; ``None``: that of ``like``.
    """

    like: Required[Tensor]
    progress: Progress | None
    is_dummy: bool
    quantize: str | None


_log = logging.getLogger(__name__)


class LazyWeights(Mapping[str, Tensor]):
    """Tensors by name, read at each access and converted."""

    def __init__(
        self, directory: Path, tensors: Mapping[str, tuple[TensorHeader, Any]], how: WeightOptions
    ) -> None:
        """Store the header and the open file of each tensor, by name, without reading any."""
        self.quantize = how.get("quantize")
        self._directory = directory
        self._tensors = tensors
        self._unread = set(tensors)
        self.like = how["like"]
        self._progress = how.get("progress")
        self._num_bytes = sum(header.num_bytes for header, _ in tensors.values())
        self._num_bytes_read = 0

    def __getitem__(self, name: str) -> Tensor:
        # Moved first and converted there; copied, so that no tensor refers to the open file.
        moved = self.stored(name).to(self.like.device)
        return moved.to(self.like.dtype, copy=self.like.device.type == "cpu")

    def stored(self, name: str) -> Tensor:
        """Return a tensor of the stored type, on a CPU within the file: only what is read loads."""
        header, file = self.source(name)
        tensor: Tensor = file.get_tensor(header.name)
        return tensor

    def source(self, name: str) -> tuple[TensorHeader, Any]:
        """Return a tensor's header and open file, and count the tensor as read."""
        header, file = self._tensors[name]
        if name in self._unread:
            self._unread.remove(name)
            self._num_bytes_read += header.num_bytes
            if self._progress is not None:
                self._progress(self._num_bytes_read, self._num_bytes)
        return header, file

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def check_all_read(self) -> None:
        """Refuse a model that left tensors unread; raises ModelLoadError."""
        if self._unread:
            raise ModelLoadError(f"{self._directory}: never read: {some(self._unread)}")


@contextmanager
def open_weights(part: WeightsPart, **how: Unpack[WeightOptions]) -> Iterator[Weights]:
    """Open the tensors of a part, each of which must be used.

    Raises:
        ModelLoadError: on entering, the files do not match the layout; on leaving, a tensor was not
            used.
    """
    found: Mapping[str, tuple[TensorHeader, Any]]
    if how.get("is_dummy"):
        drawn = DrawnTensors(part.layout, how["like"])
        found = {name: (header, drawn) for name, header in drawn.headers().items()}
    else:
        found = open_tensors_of(_checked(part), how["like"].device)
    used = without(part.unused, found)
    wanted = {name: each for name, each in used.items() if name.startswith(part.prefix)}
    tensors = {part.aliases.get(name, name): each for name, each in wanted.items()}
    weights = LazyWeights(part.directory, tensors, how)
    yield weights
    weights.check_all_read()
    trim_heap()


def _checked(part: WeightsPart) -> dict[str, tuple[Path, TensorHeader]]:
    every = read_directory(part.directory, part.stem)
    headers = without(part.others, every)
    if left_out := every.keys() - headers.keys():
        parts = {name.partition(".")[0] for name in left_out}
        _log.info("%s: %d tensors are not read: %s", part.directory, len(left_out), some(parts))
    shapes = {name: each.shape for name, (_, each) in headers.items()}
    if problems := layout_problems(shapes, part.layout):
        raise ModelLoadError(f"{part.directory}: tensors {'; '.join(problems)}")
    for name, (file, header) in headers.items():
        if not header.is_readable:
            raise ModelLoadError(
                f"{file}: '{name}' is {header.dtype}; only {', '.join(DTYPES)} are supported"
            )
    return headers


def check_tied(directory: Path, tied: Mapping[str, str]) -> None:
    """Refuse a checkpoint that has `tied_problems`; raises ModelLoadError."""
    if problems := tied_problems(read_directory(directory), tied):
        raise ModelLoadError(f"{directory}: tensors: {'; '.join(problems)}")
