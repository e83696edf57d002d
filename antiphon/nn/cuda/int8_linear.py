"""Products of decoder layers with int8 weights on a GPU, computed in the type of the states.

Weights have one scale per output. Few rows are multiplied by the kernels of
`antiphon.nn.kernels.fused_linear`, which read the weights as they are.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.layers import Linear

_MAX_WEIGHT = 127
_TINY = 1e-30  # scale of an output without weights


@dataclass(frozen=True, slots=True)
class ScaledLinear(Linear):
    """A `Linear` of int8 weights and `scales`."""

    @classmethod
    def pack(cls, linear: Linear, like: Tensor) -> "ScaledLinear":
        """Quantise a layer by the largest weight of each output, on the device of ``like``."""
        weight = linear.weight.to(like.device).float()
        scales = weight.abs().amax(1).div_(_MAX_WEIGHT).clamp_min_(_TINY)
        numbers = (weight / scales[:, None]).round_().to(torch.int8)
        bias = None if linear.bias is None else linear.bias.to(like)
        return cls(numbers, bias, scales=scales)

    def __call__(self, states: Tensor) -> Tensor:
        assert self.scales is not None
        product = F.linear(states, self.weight.to(states.dtype)) * self.scales
        product = product.to(states.dtype)
        return product if self.bias is None else product + self.bias
