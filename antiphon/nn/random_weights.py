"""Safetensors files of random numbers: bit-identical on any machine, in little memory.

A value depends only on the seed, the tensor's name and the value's index: not on other tensors, on
shards, or on the version of a library (raw PCG64 output is scaled here, since only that stream is
guaranteed to be stable).
"""

import json
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.errors import ModelLoadError

Dtype: TypeAlias = Literal["float32", "bfloat16"]
Written: TypeAlias = Callable[[int], None]
"""Callback with the number of bytes just written."""

_BYTES = {"float32": 4, "bfloat16": 2}
_NAMES = {"float32": "F32", "bfloat16": "BF16"}
_VALUES_AT_ONCE = 1 << 22
_MOST_THREADS = 16


def check_arguments(**given: tuple[str, Sequence[str]]) -> None:
    """Refuse unknown arguments of a checkpoint maker; each comes with its known values.

    Raises:
        ModelLoadError: an argument is not among its known values.
    """
    for name, (value, known) in given.items():
        if value not in known:
            raise ModelLoadError(f"There is no {name} '{value}'; there are: {', '.join(known)}.")


def counted(progress: Callable[[int, int], None] | None, total: int) -> Written:
    """Return a callback that adds up bytes and reports the sum and the total."""
    done = 0

    def add(num_written: int) -> None:
        nonlocal done
        done += num_written
        if progress is not None:
            progress(done, total)

    return add


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

    Remove files of an earlier call. ``written`` is called every few million values; ``stem`` is the
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
    """Write one file on several cores, a few million values at a time."""
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
        for content in _contents(tensors, seed, dtype):
            num_written = out.write(content)
            if written is not None:
                written(num_written)


def _contents(tensors: Mapping[str, RandomTensor], seed: int, dtype: Dtype) -> Iterator[bytes]:
    """Yield a file's contents in order; threads compute the next pieces meanwhile."""
    num_threads = min(_MOST_THREADS, os.cpu_count() or 1)
    pieces = (
        (name, tensor, start) for name, tensor in tensors.items() for start in _starts(tensor)
    )

    def made(name: str, tensor: RandomTensor, start: int) -> bytes:
        return encoded_values(_values(name, tensor, seed, start), dtype)

    with ThreadPoolExecutor(num_threads, "random weights") as threads:
        ahead: deque[Future[bytes]] = deque()
        for piece in pieces:
            ahead.append(threads.submit(made, *piece))
            if len(ahead) > 2 * num_threads:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()


def num_bytes(tensors: Mapping[str, RandomTensor], dtype: Dtype) -> int:
    """Return the size of the tensors in a file."""
    return sum(tensor.num_values for tensor in tensors.values()) * _BYTES[dtype]


def random_values(name: str, tensor: RandomTensor, seed: int) -> Iterator[NDArray[np.float32]]:
    """Yield the values of a tensor in order, flattened, a few million at a time."""
    for start in _starts(tensor):
        yield _values(name, tensor, seed, start)


def _starts(tensor: RandomTensor) -> range:
    return range(0, tensor.num_values, _VALUES_AT_ONCE)


def _values(name: str, tensor: RandomTensor, seed: int, start: int) -> NDArray[np.float32]:
    """Return the values from ``start`` on, which is even, without drawing those before."""
    bits = np.random.PCG64(np.random.SeedSequence((seed, zlib.crc32(name.encode()))))
    bits.advance(start // 2)  # a 64-bit word is two values
    half_width = np.float32(tensor.std * 3**0.5)
    count = min(_VALUES_AT_ONCE, tensor.num_values - start)
    words = bits.random_raw((count + 1) // 2).astype("<u8", copy=False).view("<u4")[:count]
    # The upper 24 bits, as a multiple of 2**-23 in [-1, 1): exact in float32.
    unit = (words >> 8).astype(np.float32) * np.float32(2.0**-23) - np.float32(1.0)
    values = unit * half_width + np.float32(tensor.mean)
    _apply_rows(values, start, tensor)
    return values


def _apply_rows(values: NDArray[np.float32], start: int, tensor: RandomTensor) -> None:
    width = tensor.num_values // tensor.shape[0]

    def values_of(row: int) -> NDArray[np.float32]:
        first = row * width - start
        return values[max(first, 0) : max(first + width, 0)]

    for row, gain in tensor.row_gains.items():
        values_of(row)[:] *= np.float32(gain)
    for row, mean in tensor.row_means.items():
        values_of(row)[:] += np.float32(mean)


def encoded_values(values: NDArray[np.float32], dtype: Dtype) -> bytes:
    """Return values as the bytes of a safetensors file."""
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
