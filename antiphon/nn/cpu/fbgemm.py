"""The engine of products with packed weights, on x86 CPUs."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

ENGINE = "fbgemm"


def has_engine() -> bool:
    """Return whether this PyTorch was built with the engine, which CPUs other than x86 lack."""
    return ENGINE in torch.backends.quantized.supported_engines


@contextmanager
def engine_for_packing() -> Iterator[None]:
    """Use the engine for packing; a product is computed by the engine of its weights."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = ENGINE
    try:
        yield
    finally:
        torch.backends.quantized.engine = before
