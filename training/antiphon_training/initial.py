"""First weights of a codec, which keep the variance of what passes through."""

import torch
from torch import nn

_BRANCH_GAIN = 0.3
_OUTPUT_GAIN = 0.1


@torch.no_grad()
def initialize(codec: nn.Module, output: nn.Module) -> None:
    """Draw weights by their fan-in, smaller ones at the end of residual branches; biases are zero.

    Args:
        codec: network whose convolutions and projections are set.
        output: its last convolution, which begins quiet.
    """
    for name, module in codec.named_modules():
        if not isinstance(module, nn.Conv1d | nn.Linear | nn.ConvTranspose1d):
            continue
        fan_in = module.weight[0].numel()
        if isinstance(module, nn.ConvTranspose1d):
            fan_in = module.weight.shape[0] * module.kernel_size[0] // module.stride[0]
        gain = _BRANCH_GAIN if name.endswith((".conv2.conv", ".block.3.conv")) else 1.0
        gain *= _OUTPUT_GAIN if module is output else 1.0
        nn.init.normal_(module.weight, std=gain * fan_in**-0.5)
        if module.bias is not None:
            nn.init.zeros_(module.bias)
