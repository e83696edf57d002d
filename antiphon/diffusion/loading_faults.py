"""Translation of arbitrary exceptions of libraries that read broken files into load errors."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from antiphon.engine.faults import fault_of
from antiphon.errors import ModelLoadError

T = TypeVar("T")


def read_folder(folder: Path, load: Callable[[], T], *passed: type[Exception]) -> T:
    """Return the result of ``load`` for a folder.

    Args:
        folder: named in the error.
        load: calls the library.
        passed: exceptions that are no fault of the files.

    Raises:
        ModelLoadError: the folder is not there, or its files are broken.
    """
    if not folder.is_dir():
        raise ModelLoadError(f"{folder}: there is no such directory")
    found: list[T] = []
    fault = fault_of(lambda: found.append(load()))
    if isinstance(fault, passed):
        raise fault
    if fault is not None:
        raise ModelLoadError(f"{folder}: cannot be loaded: {fault}") from fault
    return found[0]
