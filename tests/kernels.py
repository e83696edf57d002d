"""Where kernels are tested: on a GPU, or on the CPU in Triton's interpreter."""

import os
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.nn import kernels

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def why_not_here() -> str:
    """Return why no kernel can run in this process, ``""`` if one can.

    Raises:
        ModuleNotFoundError: the interpreter is asked for and is not installed: a run that is meant
            to test kernels must not pass by skipping them.
    """
    is_interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    if find_spec("triton") is None:
        if is_interpreted:
            raise ModuleNotFoundError("TRITON_INTERPRET=1 needs Triton, which is not installed.")
        return "Triton is not installed; on Linux the 'test' extra brings it"
    if torch.cuda.is_available() or is_interpreted:
        return ""
    return "kernels need a GPU, or TRITON_INTERPRET=1 in the environment from the start"


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def packed(tensor: Tensor) -> Tensor:
    """Return the parts of each float32 as one int32, as kernels of split products read them."""
    from antiphon.nn.kernels.split import split

    high, low = (each.view(torch.int16).int() for each in split(tensor))
    return (high << 16) | (low & 0xFFFF)


def with_kernels(context: LoadContext, monkeypatch: pytest.MonkeyPatch) -> LoadContext:
    """Return a context in which models compute by kernels: of a GPU, or of the interpreter."""
    if torch.cuda.is_available():
        return replace(context, device="cuda")
    monkeypatch.setattr(kernels, "run_on", lambda tensor: True)
    return context


def hold_products_to_their_rows() -> None:
    """Have the interpreter add products of float32 in float64.

    On tensor cores a row of a tile is added up in one order wherever it stands in the tile. NumPy's
    BLAS has an order for the first rows and another for the last, on some processors: a kernel
    whose rows do not notice their company would seem to fail.
    """
    builder: Any = import_module("triton.runtime.interpreter").InterpreterBuilder
    product = builder.create_dot

    def create_dot(self: Any, left: Any, right: Any, added: Any, *how: Any) -> Any:
        if added.data.dtype != np.float32 or 8 in {
            each.dtype.primitive_bitwidth for each in (left, right)
        }:
            return product(self, left, right, added, *how)
        total = np.matmul(left.data, right.data, dtype=np.float64) + added.data
        return type(added)(total.astype(np.float32), added.dtype.scalar)

    builder.create_dot = create_dot
