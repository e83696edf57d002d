"""Safetensors files of random numbers, for checkpoints of tests."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.nn.random_weights import Dtype, random_values
from antiphon.nn.safetensors_index import STEM

Progress: TypeAlias = Callable[[int, int], None]
"""Callback with the bytes written so far and the total."""
Written: TypeAlias = Callable[[int], None]
"""Callback with the number of bytes just written."""

_BYTES = {"float32": 4, "bfloat16": 2}
_NAMES = {"float32": "F32", "bfloat16": "BF16"}


@dataclass(frozen=True, slots=True)
class RandomTensor:
    """Description of a tensor of uniform values around a mean.

    Attributes:
        shape: row-major.
        std: standard deviation; 0 makes every value the mean.
        row_gains: factors for single rows of the first axis.
        row_means: offsets of single rows of the first axis, added after their factors.
    """

    shape: tuple[int, ...]
    std: float
    mean: float = 0.0
    row_gains: Mapping[int, float] = field(default_factory=dict)
    row_means: Mapping[int, float] = field(default_factory=dict)

    @property
    def num_values(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))

    def values(self, name: str, seed: int) -> NDArray[np.float32]:
        values = random_values(name, self.shape, self.std, seed) + np.float32(self.mean)
        for row, gain in self.row_gains.items():
            values[row] *= np.float32(gain)
        for row, mean in self.row_means.items():
            values[row] += np.float32(mean)
        return values


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomPart:
    """Safetensors files of one directory and stem."""

    directory: Path
    tensors: Mapping[str, RandomTensor]
    seed: int
    dtype: Dtype
    shards: int = 1
    stem: str = STEM


def write_parts(parts: Sequence[RandomPart], progress: Progress | None) -> None:
    written = counted(progress, sum(num_bytes(part.tensors, part.dtype) for part in parts))
    for part in parts:
        write_sharded(
            *(part.directory, part.tensors, part.seed, part.dtype, part.shards, written),
            stem=part.stem,
        )


def report_files(path: Path, progress: Progress | None) -> None:
    if progress is not None:
        total = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        progress(total, total)


def counted(progress: Callable[[int, int], None] | None, total: int) -> Written:
    """Return a callback that adds up bytes and reports the sum and the total."""
    done = 0

    def add(num_written: int) -> None:
        nonlocal done
        done += num_written
        if progress is not None:
            progress(done, total)

    return add


def write_sharded(
    directory: Path,
    tensors: Mapping[str, RandomTensor],
    seed: int,
    dtype: Dtype,
    num_shards: int,
    written: Written | None = None,
    stem: str = "model",
) -> None:
    """Write model.safetensors, or shards of about equal size with their index.

    Remove files of an earlier call. ``written`` is called after every tensor; ``stem`` is the
    prefix of file names.
    """
    index_file = directory / f"{stem}.safetensors.index.json"
    for stale in (*directory.glob(f"{stem}*.safetensors"), index_file):
        stale.unlink(missing_ok=True)
    if num_shards == 1:
        write_safetensors(directory / f"{stem}.safetensors", tensors, seed, dtype, written)
        return
    weight_map: dict[str, str] = {}
    for number, names in enumerate(_split(tensors, num_shards), 1):
        file = f"{stem}-{number:05}-of-{num_shards:05}.safetensors"
        shard = {name: tensors[name] for name in names}
        write_safetensors(directory / file, shard, seed, dtype, written)
        weight_map |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": num_bytes(tensors, dtype)}, "weight_map": weight_map}
    index_file.write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def write_safetensors(
    file: Path,
    tensors: Mapping[str, RandomTensor],
    seed: int,
    dtype: Dtype,
    written: Written | None = None,
) -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, tensor in tensors.items():
        start, end = end, end + tensor.num_values * _BYTES[dtype]
        shape = list(tensor.shape)
        header[name] = {"dtype": _NAMES[dtype], "shape": shape, "data_offsets": [start, end]}
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    with file.open("wb") as out:
        out.write(len(encoded).to_bytes(8, "little"))
        out.write(encoded)
        for name, tensor in tensors.items():
            num_written = out.write(encoded_values(tensor.values(name, seed), dtype))
            if written is not None:
                written(num_written)


def num_bytes(tensors: Mapping[str, RandomTensor], dtype: Dtype) -> int:
    return sum(tensor.num_values for tensor in tensors.values()) * _BYTES[dtype]


def encoded_values(values: NDArray[np.float32], dtype: Dtype) -> bytes:
    if dtype == "float32":
        return values.astype("<f4", copy=False).tobytes()
    words = values.view(np.uint32)
    rounded = words + np.uint32(0x7FFF) + ((words >> 16) & 1)  # to nearest, ties to even
    return (rounded >> 16).astype("<u2").tobytes()


def _split(tensors: Mapping[str, RandomTensor], num_shards: int) -> Sequence[list[str]]:
    """Assign names, in order, to shards of about equal size, none empty."""
    total = sum(tensor.num_values for tensor in tensors.values())
    shards: list[list[str]] = [[] for _ in range(num_shards)]
    done = 0
    for index, (name, tensor) in enumerate(tensors.items()):
        by_size = done * num_shards // total
        by_count = num_shards - (len(tensors) - index)  # leave a tensor for each later shard
        shards[max(by_size, by_count)].append(name)
        done += tensor.num_values
    assert all(shards)
    return shards
