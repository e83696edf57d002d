"""Lazy reading of a checkpoint's tensors, with a check that each is used.

Building a model from `LazyWeights` needs the memory of the model and of the few tensors that are
being joined or folded, on any device and for any number type.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Required, TypeAlias, TypedDict, Unpack

from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn.cpu.mapped_file import MappedFile
from antiphon.nn.dummy_weights import DrawnTensors
from antiphon.nn.layers import Weights
from antiphon.nn.safetensors_index import (
    DTYPES,
    STEM,
    Shape,
    TensorHeader,
    layout_problems,
    read_directory,
    some,
    tied_problems,
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
_NOTHING = r"(?!)"  # matches no name


class LazyWeights(Mapping[str, Tensor]):
    """Tensors by name, read at each access and converted."""

    def __init__(
        self,
        directory: Path,
        tensors: Mapping[str, tuple[TensorHeader, Any]],
        how: WeightOptions,
    ) -> None:
        """Store the headers without reading tensors.

        Args:
            tensors: header and open file of each tensor, by name.
        """
        self.quantize = how.get("quantize")
        self._directory = directory
        self._tensors = tensors
        self._unread = set(tensors)
        self._like = how["like"]
        self._progress = how.get("progress")
        self._num_bytes = sum(header.num_bytes for header, _ in tensors.values())
        self._num_bytes_read = 0

    def __getitem__(self, name: str) -> Tensor:
        # Moved first and converted there; copied, so that no tensor refers to the open file.
        moved = self.stored(name).to(self._like.device)
        return moved.to(self._like.dtype, copy=self._like.device.type == "cpu")

    def stored(self, name: str) -> Tensor:
        """Return a tensor of the stored type, on a CPU within the file: only what is read loads."""
        header, file = self._tensors[name]
        tensor: Tensor = file.get_tensor(name)
        if name in self._unread:
            self._unread.remove(name)
            self._num_bytes_read += header.num_bytes
            if self._progress is not None:
                self._progress(self._num_bytes_read, self._num_bytes)
        return tensor

    def __contains__(self, name: object) -> bool:
        return name in self._tensors

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)

    def check_all_read(self) -> None:
        """Refuse a model that left tensors unread.

        Raises:
            ModelLoadError: tensors were never read; the message names them.
        """
        if self._unread:
            raise ModelLoadError(f"{self._directory}: never read: {some(self._unread)}")


@contextmanager
def open_weights(
    directory: Path,
    layout: Mapping[str, Shape],
    *,
    part: str = "",
    unused: str | None = None,
    others: str | None = None,
    stem: str = STEM,
    **how: Unpack[WeightOptions],
) -> Iterator[Weights]:
    """Check a directory against its layout, and yield the tensors of one part of it.

    On leaving, every tensor of the part must have been read.

    Args:
        directory: folder with model.safetensors, or shards and an index.
        layout: names and shapes of all its tensors.
        part: prefix of the part's tensor names.
        unused: regular expression of whole names that the part does not need.
        others: regular expression of whole names beside the layout, read elsewhere.

    Raises:
        ModelLoadError: the files do not match the layout, or a tensor was left unread.
    """
    skip = re.compile(unused or _NOTHING)
    drawn = DrawnTensors(layout, how["like"])
    stored = None if how.get("is_dummy") else _checked(directory, layout, others, stem)
    found: Mapping[str, tuple[TensorHeader, Any]]
    if stored is None:
        found = {name: (header, drawn) for name, header in drawn.headers().items()}
    else:
        files = {file: MappedFile(file) for file, _ in stored.values()}
        found = {name: (header, files[file]) for name, (file, header) in stored.items()}
    tensors = {
        name: each
        for name, each in found.items()
        if name.startswith(part) and not skip.fullmatch(name)
    }
    weights = LazyWeights(directory, tensors, how)
    yield weights
    weights.check_all_read()


def _checked(
    directory: Path, layout: Mapping[str, Shape], others: str | None, stem: str
) -> dict[str, tuple[Path, TensorHeader]]:
    """Return files and headers of a layout's tensors; arguments as for `open_weights`."""
    beside = re.compile(others or _NOTHING)
    every = read_directory(directory, stem)
    headers = {name: each for name, each in every.items() if not beside.fullmatch(name)}
    if left_out := every.keys() - headers.keys():
        parts = {name.partition(".")[0] for name in left_out}
        _log.info("%s: %d tensors are not read: %s", directory, len(left_out), some(parts))
    problems = layout_problems({name: each.shape for name, (_, each) in headers.items()}, layout)
    if problems:
        raise ModelLoadError(f"{directory}: tensors {'; '.join(problems)}")
    for name, (file, header) in headers.items():
        if header.dtype not in DTYPES:
            raise ModelLoadError(
                f"{file}: '{name}' is {header.dtype}; only {', '.join(DTYPES)} are supported"
            )
    return headers


def check_tied(directory: Path, tied: Mapping[str, str]) -> None:
    """Refuse a checkpoint with a head that differs from the embedding it should be tied to.

    Args:
        tied: pairs of names as for `tied_problems`.

    Raises:
        ModelLoadError: a stored tensor differs from the one used in its place.
    """
    if problems := tied_problems(read_directory(directory), tied):
        raise ModelLoadError(f"{directory}: tensors: {'; '.join(problems)}")
