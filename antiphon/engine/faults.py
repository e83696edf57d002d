"""The one place where any exception of model code is caught."""

from collections.abc import Callable
from typing import TypeVar

from antiphon.errors import ModelLoadError

T = TypeVar("T")


def fault_of(function: Callable[[], object]) -> Exception | None:
    """Call model code; return what it raised, or ``None``."""
    try:
        function()
    except Exception as error:  # noqa: BLE001 - a model may raise anything
        return error
    return None


def loaded(load: Callable[[], T], problem: str, *passed: type[Exception]) -> T:
    """Return the result of a library whose exceptions for broken files have no class in common.

    Args:
        problem: beginning of the message if that fails.
        passed: exceptions that are no fault of the files.

    Raises:
        ModelLoadError: ``load`` raised this, or any exception that is not in ``passed``.
    """
    try:
        return load()
    except Exception as error:
        if isinstance(error, (ModelLoadError, *passed)):
            raise
        raise ModelLoadError(f"{problem}: {error}") from error
