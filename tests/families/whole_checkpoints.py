"""Whole checkpoints of families that draw weights: theirs have none, these bring lively ones."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from antiphon.contracts.family import LoadContext
from antiphon.families.kit.random_checkpoint import (
    DRAWN_FILE,
    Making,
    Progress,
    load_format_of,
)
from antiphon.families.registry import family
from antiphon.nn.random_weights import Dtype


@dataclass(frozen=True)
class WholeCheckpoints:
    """A maker of the same arguments as that of the family, and of seed, shards and progress."""

    without_weights: Callable[..., None]
    write_weights: Callable[[Path, Making], None]

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
        maker = self.without_weights
        maker(path, size=size, task=task, vocabulary=vocabulary, dtype=dtype)
        (path / DRAWN_FILE).unlink()
        making = Making(
            size=size,
            task=task,
            vocabulary=vocabulary,
            seed=seed,
            dtype=dtype,
            shards=shards,
            progress=progress,
        )
        self.write_weights(path, making)


def context_of(path: Path, device: str, **more: Any) -> LoadContext:
    """Return the context of a directory that may have been made without weights.

    Args:
        path: directory of the checkpoint.
        device: device that it is loaded on.
        more: further attributes of the context.
    """
    return LoadContext(path, device, load_format=load_format_of(path, "auto"), **more)


def maker_of(name: str) -> Any:
    """Return the maker of a family's whole checkpoints, in its tests or the family itself."""
    module = f"tests.families.{name}.random_checkpoint"
    if find_spec(module) is not None:
        return import_module(module).make_checkpoint
    maker = family(name).checkpoint_maker
    assert maker is not None, "without one it cannot be tested"
    return maker.resolve()
