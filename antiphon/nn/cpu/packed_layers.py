"""Packed weights of decoder layers, in the type that a checkpoint is opened for."""

import logging
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import TypeAlias

import torch
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn import kernels
from antiphon.nn.cpu.exact_rows import MAX_EXACT_ROWS
from antiphon.nn.cpu.fbgemm import ENGINE, has_engine
from antiphon.nn.cpu.fp16_linear import Fp16Linear
from antiphon.nn.cpu.int8_linear import Int8Linear
from antiphon.nn.cpu.int8_weight_linear import Int8WeightLinear
from antiphon.nn.cuda.int8_linear import ScaledLinear
from antiphon.nn.layers import Linear, SwiGLU, Weights
from antiphon.nn.weights import LazyWeights

_log = logging.getLogger(__name__)

Packed: TypeAlias = type[Int8Linear] | type[Int8WeightLinear] | type[Fp16Linear]

_ALIGNED = 16  # numbers of 64 bytes: products in float32 round by where a row begins


class _Stored(Mapping[str, Tensor]):
    """Tensors within their files, as they are stored: no float32 copy of a layer is made."""

    def __init__(self, weights: LazyWeights, quantize: str) -> None:
        self._weights = weights
        self.quantize = quantize
        self.like = weights.like

    def __getitem__(self, name: str) -> Tensor:
        return self._weights.stored(name)

    def __contains__(self, name: object) -> bool:
        return name in self._weights

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def kinds() -> Mapping[str, tuple[str, Packed]]:
    """Return the engines and layers of this CPU's packed weights, by 'model.quantize'."""
    if has_engine():
        return {"fp16": (ENGINE, Fp16Linear), "int8": (ENGINE, Int8Linear)}
    return {"int8": ("int8pack_mm", Int8WeightLinear)}


def to_pack(weights: Weights) -> Weights:
    """Return the tensors of layers that `packed` is given, of ``weights``."""
    if isinstance(weights, LazyWeights) and weights.quantize is not None:
        return _Stored(weights, weights.quantize)
    return weights


def packed(linear: Linear, weights: Weights) -> Linear:
    """Return a layer of `to_pack`, in the type that its weights are opened for."""
    if not isinstance(weights, _Stored):
        return linear
    if not weights.like.is_cpu:
        return ScaledLinear.pack(linear, weights.like)
    _, kind = kinds()[weights.quantize]
    return kind.pack(linear)


def packed_gate(inner: SwiGLU, weights: Weights) -> SwiGLU:
    """Return both products of ``weights`` as `packed` does."""
    return SwiGLU(packed(inner.gate_up, weights), packed(inner.down, weights))


def rows_together(layers: Iterable[SwiGLU]) -> int:
    """Return how many rows layers compute together on a CPU, each as if it were alone."""
    is_exact = all(
        isinstance(each.down, Int8Linear | Int8WeightLinear)
        and len(each.down.weight) % _ALIGNED == 0
        for each in layers
    )
    return MAX_EXACT_ROWS if is_exact else 1


def check_quantize(quantize: str | None, like: Tensor) -> None:
    """Refuse quantised weights where no kernel computes them; log what to expect of others.

    Args:
        quantize: ``"int8"`` or ``"fp16"``, or ``None``, which is always possible.
        like: tensor of the type and on the device of the other weights.

    Raises:
        ModelLoadError: the device, its kind of CPU or the type has no kernel.
    """
    if quantize is None:
        if like.is_cpu:
            _log_expectation()
        return
    invalid = f"Invalid 'model.quantize': '{quantize}'."
    if not like.is_cpu:
        if quantize != "int8" or not kernels.run_on(like):
            raise ModelLoadError(
                f"{invalid} On '{like.device}' it must be unset, or int8 with Triton."
            )
        return
    if like.dtype is not torch.float32:
        raise ModelLoadError(f"{invalid} It needs 'model.dtype' = 'auto' or 'float32'.")
    if quantize not in kinds():
        raise ModelLoadError(f"{invalid} On this CPU it must be unset, or int8.")


@cache
def _log_expectation() -> None:
    """Log once in a process how fast models are on a CPU."""
    _log.info(
        "on a CPU, models of hundreds of millions of parameters speak slower than real time, and"
        " small voices faster; 'model.quantize' = 'int8' halves the time where it is supported:"
        " see docs/without-a-gpu.md"
    )
