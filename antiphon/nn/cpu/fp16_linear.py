"""Products of decoder layers with float16 weights and float32 arithmetic, by FBGEMM."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.nn.cpu.fbgemm import engine_for_packing
from antiphon.nn.layers import Linear


@dataclass(frozen=True, slots=True)
class Fp16Linear(Linear):
    """A `Linear` of float16 weights; ``weight`` has their shape and no memory.

    The values of bfloat16 weights are kept, except those below 6e-5, which are rounded to 6e-8.

    Attributes:
        packed: weights and bias, in the layout of the kernel.
    """

    packed: Any = None

    @classmethod
    def pack(cls, linear: Linear) -> "Fp16Linear":
        """Convert a layer of weights of any type."""
        # Copied, so that nothing refers to the file.
        bias = None if linear.bias is None else linear.bias.to(torch.float32, copy=True)
        with engine_for_packing():
            packed = torch.ops.quantized.linear_prepack_fp16(linear.weight.float(), bias)
        return cls(torch.empty(linear.weight.shape, device="meta"), bias, packed=packed)

    def __call__(self, states: Tensor) -> Tensor:
        product: Tensor = torch.ops.quantized.linear_dynamic_fp16(states, self.packed)
        return product
