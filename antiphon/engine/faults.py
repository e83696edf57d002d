"""The one door by which whatever model code raises is caught."""

from collections.abc import Callable


def fault_of(function: Callable[[], object]) -> Exception | None:
    """Call what runs model code; return what it raised, or ``None``."""
    try:
        function()
    except Exception as error:  # noqa: BLE001 - nobody knows what a model may raise
        return error
    return None
