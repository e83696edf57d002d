"""Products of decoder layers with int8 weights, by FBGEMM on an x86 CPU.

Weights have one scale per output, activations one per row, which is found when they are computed.
Sums are of integers, so that a row's result depends neither on other rows nor on threads. Heads,
embeddings and norms keep their type.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from antiphon.errors import ModelLoadError
from antiphon.nn.layers import Linear, SwiGLU, Weights
from antiphon.nn.weights import LazyWeights

_log = logging.getLogger(__name__)

ENGINE = "fbgemm"
_MAX_WEIGHT = 127
# Seven bits: without VNNI, FBGEMM adds two products in 16 bits, which eight bits would saturate.
_MAX_STATE, _ZERO_POINT = 63, 64
_PACKED_ROWS = 256  # at a time, within a core's cache
_TINY = 1e-30  # scale of a row of zeros


@dataclass(frozen=True, slots=True)
class Int8Linear(Linear):
    """A `Linear` of int8 weights; ``weight`` has their shape and no memory.

    Attributes:
        packed: weights and their scales, in the layout of the kernel.
    """

    packed: Any = None

    @classmethod
    def pack(cls, linear: Linear) -> "Int8Linear":
        """Quantise a layer of weights of any type by the largest weight of each output."""
        weight = linear.weight
        numbers, scales = torch.empty(weight.shape, dtype=torch.int8), torch.empty(len(weight))
        parts = (torch.split(each, _PACKED_ROWS) for each in (weight, numbers, scales))
        for stored, some, scale in zip(*parts, strict=True):
            exact = stored.float()
            scale.copy_(exact.abs().amax(1)).div_(_MAX_WEIGHT).clamp_min_(_TINY)
            some.copy_((exact / scale[:, None]).round_())
        zeros = torch.zeros(len(weight), dtype=torch.int64)
        engine = torch.backends.quantized.engine
        with warnings.catch_warnings():
            # PyTorch announces the end of its quantised tensors, of which only packing needs one.
            warnings.filterwarnings("ignore", message=".*quantize_per_channel")
            # Of numbers: `torch.quantize_per_channel` takes ten times as long.
            whole = torch._make_per_channel_quantized_tensor(numbers, scales, zeros, 0)
        torch.backends.quantized.engine = ENGINE
        try:
            packed = torch.ops.quantized.linear_prepack(whole, None)
        finally:
            torch.backends.quantized.engine = engine
        # Copied, so that nothing refers to the file.
        bias = None if linear.bias is None else linear.bias.to(torch.float32, copy=True)
        return cls(torch.empty(weight.shape, device="meta"), bias, packed=packed)

    def __call__(self, states: Tensor) -> Tensor:
        scales = states.abs().amax(-1, keepdim=True).clamp_min_(_TINY)
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            states / scales, 1 / _MAX_STATE, _ZERO_POINT, self.packed
        )
        product = product.mul_(scales)
        return product if self.bias is None else product.add_(self.bias)


class _Stored(Mapping[str, Tensor]):
    """Tensors within their files, as they are stored: no float32 copy of a layer is made."""

    def __init__(self, weights: LazyWeights) -> None:
        self._weights = weights

    def __getitem__(self, name: str) -> Tensor:
        return self._weights.stored(name)

    def __contains__(self, name: object) -> bool:
        return name in self._weights

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def to_pack(weights: Weights) -> Weights:
    """Return the tensors of layers that `packed` is given, of ``weights``."""
    if isinstance(weights, LazyWeights) and weights.quantize is not None:
        return _Stored(weights)
    return weights


def packed(linear: Linear, weights: Weights) -> Linear:
    """Return a layer of `to_pack`, quantised if its weights are opened for that."""
    return Int8Linear.pack(linear) if isinstance(weights, _Stored) else linear


def packed_gate(inner: SwiGLU, weights: Weights) -> SwiGLU:
    """Return both products of ``weights`` as `packed` does."""
    return SwiGLU(packed(inner.gate_up, weights), packed(inner.down, weights))


def check_quantize(quantize: str | None, like: Tensor) -> None:
    """Refuse quantised weights where no kernel computes them; log what to expect of others.

    Args:
        quantize: ``"int8"``, or ``None``, which is always possible.
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
        raise ModelLoadError(f"{invalid} On '{like.device}' it must be unset; use 'cpu' for it.")
    if like.dtype is not torch.float32:
        raise ModelLoadError(f"{invalid} It needs 'model.dtype' = 'auto' or 'float32'.")
    if ENGINE not in torch.backends.quantized.supported_engines:
        raise ModelLoadError(f"{invalid} This PyTorch has no FBGEMM: it must be unset.")


@cache
def _log_expectation() -> None:
    """Log once in a process how fast models are on a CPU."""
    _log.info(
        "on a CPU, models of hundreds of millions of parameters speak slower than real time, and"
        " small voices faster; 'model.quantize' = 'int8' halves the time where it is supported:"
        " see docs/without-a-gpu.md"
    )
