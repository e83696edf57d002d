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
_PART_NUMBERS = 2**20
"""Weights that are packed at once: between larger float32 copies, memory stays unused."""


@dataclass(frozen=True, slots=True)
class ScaledLinear(Linear):
    """A `Linear` of int8 weights and `scales`."""

    @classmethod
    def pack(cls, linear: Linear, like: Tensor) -> "ScaledLinear":
        """Quantise a layer by the largest weight of each output, on the device of ``like``."""
        weight, num_rows = linear.weight, max(1, _PART_NUMBERS // linear.weight.shape[1])
        numbers = torch.empty(weight.shape, dtype=torch.int8, device=like.device)
        scales = torch.empty(len(weight), device=like.device)
        parts = (torch.split(each, num_rows) for each in (weight, numbers, scales))
        for part, packed, factors in zip(*parts, strict=True):
            rows = part.to(like.device).float()
            factors.copy_(rows.abs().amax(1).div_(_MAX_WEIGHT).clamp_min_(_TINY))
            packed.copy_((rows / factors[:, None]).round_())
        bias = None if linear.bias is None else linear.bias.to(like)
        return cls(numbers, bias, scales=scales)

    def __call__(self, states: Tensor) -> Tensor:
        assert self.scales is not None
        # In place: a prompt's product takes its memory once, and is still scaled in float32.
        product = F.linear(states, self.weight.to(states.dtype)).mul_(self.scales)
        return product if self.bias is None else product + self.bias
