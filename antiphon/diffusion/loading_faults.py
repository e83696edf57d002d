"""Reading of a component's folder by a library."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from antiphon.engine.faults import loaded
from antiphon.errors import ModelLoadError

T = TypeVar("T")


def read_folder(folder: Path, load: Callable[[], T], *passed: type[Exception]) -> T:
    """Return the result of ``load`` for a folder; see `loaded`; raises ModelLoadError."""
    if not folder.is_dir():
        raise ModelLoadError(f"{folder}: there is no such directory")
    return loaded(load, f"{folder}: cannot be loaded", *passed)
