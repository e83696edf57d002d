"""The engine of products with packed weights, on x86 CPUs."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch

ENGINE = "fbgemm"
_X86 = ("x86_64", "amd64")


def has_engine() -> bool:
    """Return whether the engine computes products on this CPU.

    PyTorch's builds for Linux on ARM name it too: there it refuses int8 weights, and products with
    float16 weights end the process on CPUs without SVE.
    """
    is_x86 = platform.machine().lower() in _X86
    return is_x86 and ENGINE in torch.backends.quantized.supported_engines


@contextmanager
def engine_for_packing() -> Iterator[None]:
    """Use the engine for packing; a product is computed by the engine of its weights."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = ENGINE
    try:
        yield
    finally:
        torch.backends.quantized.engine = before
