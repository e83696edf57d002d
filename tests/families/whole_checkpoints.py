"""Whole checkpoints of families that draw weights: theirs have none, these bring lively ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from antiphon.contracts.family import LoadContext
from antiphon.families.kit.random_checkpoint import (
    DRAWN_FILE,
    CheckpointMaker,
    Making,
    load_format_of,
)
from antiphon.families.registry import family


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole(Making):
    """Arguments of a maker of whole checkpoints; ``shards`` are those of the largest part."""

    seed: int = 0
    shards: int = 1


@dataclass(frozen=True)
class WholeCheckpoints:
    """A maker of the same arguments as that of the family, and of those of `Whole`."""

    without_weights: Callable[..., None]
    write_weights: Callable[[Path, Whole], None]

    def __call__(self, path: Path, **arguments: Any) -> None:
        whole = Whole(**arguments)
        named = {each.name: getattr(whole, each.name) for each in fields(Making)}
        self.without_weights(path, **named)
        (path / DRAWN_FILE).unlink()
        self.write_weights(path, whole)


def whole_checkpoints(
    **values: Sequence[str],
) -> Callable[[Callable[[Path, Whole], None]], WholeCheckpoints]:
    """Turn a function that writes all files into a maker with the attributes of a family's."""
    nothing = CheckpointMaker(lambda path, making: None, **values)
    return lambda write: WholeCheckpoints(nothing, write)


def context_of(path: Path, device: str, **more: Any) -> LoadContext:
    """Return the context of a directory that may have been made without weights."""
    return LoadContext(path, device, load_format=load_format_of(path, "auto"), **more)


def maker_of(name: str) -> Any:
    """Return the maker of a family's whole checkpoints, in its tests or the family itself."""
    module = f"tests.families.{name}.random_checkpoint"
    if find_spec(module) is not None:
        return import_module(module).make_checkpoint
    maker = family(name).checkpoint_maker
    assert maker is not None, "without one it cannot be tested"
    return maker.resolve()
