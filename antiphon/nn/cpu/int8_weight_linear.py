"""Products of decoder layers with int8 weights and float32 activations, on any CPU.

On ARM, PyTorch has vector instructions for them. A row's result depends neither on other rows nor
on threads.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from antiphon.nn.cpu.int8_linear import quantized_weight
from antiphon.nn.layers import Linear

_READ_TOGETHER = 8  # numbers of a row; the kernel does not check that a row ends with them


@dataclass(frozen=True, slots=True)
class Int8WeightLinear(Linear):
    """A `Linear` of int8 weights; ``weight`` has their shape and no memory.

    Attributes:
        packed: weights ``[num_outputs, num_inputs]`` and their scales.
    """

    packed: Any = None

    @classmethod
    def pack(cls, linear: Linear) -> Linear:
        """Quantise a layer of weights of any type, or convert one of odd width to float32."""
        # Copied, so that nothing refers to the file.
        bias = None if linear.bias is None else linear.bias.to(torch.float32, copy=True)
        if linear.weight.shape[1] % _READ_TOGETHER:
            return Linear(linear.weight.to(torch.float32, copy=True), bias)
        packed = quantized_weight(linear.weight)
        return cls(torch.empty(linear.weight.shape, device="meta"), bias, packed=packed)

    def __call__(self, states: Tensor) -> Tensor:
        rows = states.reshape(-1, states.shape[-1]).contiguous()
        product = torch._weight_int8pack_mm(rows, *self.packed)
        product = product.view(*states.shape[:-1], -1)
        return product if self.bias is None else product.add_(self.bias)
