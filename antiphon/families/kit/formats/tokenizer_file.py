"""Tokenizers read by a library whose exceptions have no class in common."""

from collections.abc import Callable

from tokenizers import Tokenizer

from antiphon.engine.faults import fault_of
from antiphon.errors import ModelLoadError


def read_tokenizer(read: Callable[[], Tokenizer], problem: str) -> Tokenizer:
    """Return the result of ``read``.

    Args:
        read: function that reads or builds a tokenizer.
        problem: beginning of the message if that fails.

    Raises:
        ModelLoadError: it raised this, or any exception of the library.
    """
    found: list[Tokenizer] = []
    fault = fault_of(lambda: found.append(read()))
    if isinstance(fault, ModelLoadError):
        raise fault
    if fault is not None:
        raise ModelLoadError(f"{problem}: {fault}") from fault
    return found[0]
