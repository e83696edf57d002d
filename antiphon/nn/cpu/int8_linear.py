"""Products of decoder layers with int8 weights, by FBGEMM on an x86 CPU.

Weights have one scale per output, activations one per row, which is found when they are computed.
Sums are of integers, so that a row's result depends neither on other rows nor on threads. Heads,
embeddings and norms keep their type.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.nn.cpu.fbgemm import engine_for_packing
from antiphon.nn.layers import Linear

_MAX_WEIGHT = 127
# Seven bits: without VNNI, FBGEMM adds two products in 16 bits, which eight bits would saturate.
_MAX_STATE, _ZERO_POINT = 63, 64
_PACKED_ROWS = 256  # at a time, within a core's cache
_TINY = 1e-30  # scale of a row of zeros


def quantized_weight(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return int8 numbers and the scale of each output, of weights of any type."""
    numbers, scales = torch.empty(weight.shape, dtype=torch.int8), torch.empty(len(weight))
    parts = (torch.split(each, _PACKED_ROWS) for each in (weight, numbers, scales))
    for stored, some, scale in zip(*parts, strict=True):
        exact = stored.float()
        scale.copy_(exact.abs().amax(1)).div_(_MAX_WEIGHT).clamp_min_(_TINY)
        some.copy_((exact / scale[:, None]).round_())
    return numbers, scales


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
        numbers, scales = quantized_weight(linear.weight)
        zeros = torch.zeros(len(scales), dtype=torch.int64)
        with warnings.catch_warnings(), engine_for_packing():
            # PyTorch announces the end of its quantised tensors, of which only packing needs one.
            warnings.filterwarnings("ignore", message=".*quantize_per_channel")
            # Of numbers: `torch.quantize_per_channel` takes ten times as long.
            whole = torch._make_per_channel_quantized_tensor(numbers, scales, zeros, 0)
            packed = torch.ops.quantized.linear_prepack(whole, None)
        # Copied, so that nothing refers to the file.
        bias = None if linear.bias is None else linear.bias.to(torch.float32, copy=True)
        return cls(torch.empty(numbers.shape, device="meta"), bias, packed=packed)

    def __call__(self, states: Tensor) -> Tensor:
        scales = states.abs().amax(-1, keepdim=True).clamp_min_(_TINY)
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            states / scales, 1 / _MAX_STATE, _ZERO_POINT, self.packed
        )
        product = product.mul_(scales)
        return product if self.bias is None else product.add_(self.bias)
