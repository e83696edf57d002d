"""The one place where any exception of model code is caught."""

from collections.abc import Callable


def fault_of(function: Callable[[], object]) -> Exception | None:
    """Call model code; return what it raised, or ``None``."""
    try:
        function()
    except Exception as error:  # noqa: BLE001 - a model may raise anything
        return error
    return None
