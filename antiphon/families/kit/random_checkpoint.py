"""Makers of checkpoints of random weights, for tests and measurements."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_args

from antiphon.nn.random_weights import (
    Dtype,
    RandomTensor,
    check_arguments,
    counted,
    num_bytes,
    write_sharded,
)
from antiphon.nn.safetensors_index import STEM

Progress: TypeAlias = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Making:
    """Checked arguments of a maker; see `CheckpointMaker`."""

    size: Any
    task: Any
    vocabulary: Any
    seed: int
    dtype: Dtype
    shards: int
    progress: Progress | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointMaker:
    """Writer of checkpoints of one family.

    Attributes:
        write: function of a directory and the arguments.
        sizes: names of sizes; "tiny" runs in seconds on a CPU, others are published ones.
        tasks: names of tasks, the default first; empty: a task has no effect.
        vocabularies: names of vocabularies; "byte" reads any text.
        dtypes: number types of the weights.
        is_sharded: whether weights can be spread over several files.
    """

    write: Callable[[Path, Making], None]
    sizes: Sequence[str]
    tasks: Sequence[str]
    vocabularies: Sequence[str]
    dtypes: Sequence[str]
    is_sharded: bool

    def __call__(
        self,
        path: Path,
        *,
        size: str = "tiny",
        task: str | None = None,
        vocabulary: str = "byte",
        seed: int = 0,
        dtype: Dtype = "float32",
        shards: int = 1,
        progress: Progress | None = None,
    ) -> None:
        """Write a checkpoint; files of an existing directory are replaced one by one.

        Args:
            path: directory.
            size: one of `sizes`.
            task: one of `tasks`; ``None``: the first.
            vocabulary: one of `vocabularies`.
            seed: seed of all weights.
            dtype: number type of weights that are not always float32.
            shards: number of files for the largest part.
            progress: callback with the bytes written so far and the total.

        Raises:
            ModelLoadError: an argument is not among these values, or a package is missing.
        """
        task = self.tasks[0] if task is None and self.tasks else task
        allowed = {
            "size": (size, self.sizes),
            "task": (str(task), self.tasks),
            "vocabulary": (vocabulary, self.vocabularies),
            "dtype": (dtype, self.dtypes),
            "shards": (str(shards), () if self.is_sharded else ("1",)),
        }
        check_arguments(**{name: each for name, each in allowed.items() if each[1]})
        path.mkdir(parents=True, exist_ok=True)
        making = Making(
            size=size,
            task=task,
            vocabulary=vocabulary,
            seed=seed,
            dtype=dtype,
            shards=shards,
            progress=progress,
        )
        self.write(path, making)


def checkpoint_maker(
    *,
    sizes: Sequence[str] = (),
    tasks: Sequence[str] = (),
    vocabularies: Sequence[str] = ("byte",),
    dtypes: Sequence[str] = get_args(Dtype),
    is_sharded: bool = True,
) -> Callable[[Callable[[Path, Making], None]], CheckpointMaker]:
    """Turn a function into a `CheckpointMaker`; arguments as its attributes, empty: any value."""
    return lambda write: CheckpointMaker(
        write=write,
        sizes=sizes,
        tasks=tasks,
        vocabularies=vocabularies,
        dtypes=dtypes,
        is_sharded=is_sharded,
    )


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
    """Write the files of all parts."""
    written = counted(progress, sum(num_bytes(part.tensors, part.dtype) for part in parts))
    for part in parts:
        write_sharded(
            *(part.directory, part.tensors, part.seed, part.dtype, part.shards, written),
            stem=part.stem,
        )


def report_files(path: Path, progress: Progress | None) -> None:
    """Report all files of a directory as written."""
    if progress is not None:
        total = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        progress(total, total)


def write_json(file: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file in ASCII."""
    file.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
