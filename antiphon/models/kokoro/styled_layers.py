"""Layers that a style bends: normalisations whose gains and shifts are computed from it.

Names of parameters are the checkpoint's. Shapes are
``[1, channels, length]``, and of styles ``[1, size]``.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

_SLOPE = 0.2
_HALF_POWER = 0.5**0.5


class StyledInstanceNorm(nn.Module):
    """Each channel to mean 0 and deviation 1, then to what the style wants."""

    def __init__(self, style_size: int, num_channels: int) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(num_channels, affine=True)
        self.fc = nn.Linear(style_size, 2 * num_channels)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        gain, shift = self.fc(style).unsqueeze(-1).chunk(2, dim=1)
        bent: Tensor = (1 + gain) * self.norm(x) + shift
        return bent


class StyledLayerNorm(nn.Module):
    """The same over channels, of ``[1, length, channels]``."""

    def __init__(self, style_size: int, num_channels: int) -> None:
        super().__init__()
        self._num_channels = num_channels
        self.fc = nn.Linear(style_size, 2 * num_channels)

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        gain, shift = self.fc(style).unsqueeze(1).chunk(2, dim=-1)
        bent: Tensor = (1 + gain) * functional.layer_norm(x, (self._num_channels,)) + shift
        return bent


class StyledResidual(nn.Module):
    """Two styled convolutions beside a shortcut; may double the length."""

    def __init__(
        self, num_inputs: int, num_outputs: int, style_size: int, *, doubles: bool = False
    ) -> None:
        super().__init__()
        self.doubles = doubles
        self.conv1 = nn.Conv1d(num_inputs, num_outputs, 3, padding=1)
        self.conv2 = nn.Conv1d(num_outputs, num_outputs, 3, padding=1)
        self.norm1 = StyledInstanceNorm(style_size, num_inputs)
        self.norm2 = StyledInstanceNorm(style_size, num_outputs)
        if num_inputs != num_outputs:
            self.conv1x1 = nn.Conv1d(num_inputs, num_outputs, 1, bias=False)
        self._is_learned = num_inputs != num_outputs
        if doubles:
            self.pool = nn.ConvTranspose1d(
                num_inputs, num_inputs, 3, 2, padding=1, output_padding=1, groups=num_inputs
            )

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        inner = functional.leaky_relu(self.norm1(x, style), _SLOPE)
        if self.doubles:
            inner = self.pool(inner)
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        inner = functional.leaky_relu(self.norm2(self.conv1(inner), style), _SLOPE)
        shortcut: Tensor = self.conv1x1(x) if self._is_learned else x
        bent: Tensor = (self.conv2(inner) + shortcut) * _HALF_POWER
        return bent


class StyledSnakeBlock(nn.Module):
    """Pairs of styled convolutions with periodic activations, each pair beside a shortcut."""

    def __init__(
        self, num_channels: int, kernel_size: int, dilations: tuple[int, ...], style_size: int
    ) -> None:
        super().__init__()

        def convolutions(each_dilation: tuple[int, ...]) -> nn.ModuleList:
            return nn.ModuleList(
                nn.Conv1d(
                    num_channels,
                    num_channels,
                    kernel_size,
                    dilation=dilation,
                    padding=(kernel_size - 1) * dilation // 2,
                )
                for dilation in each_dilation
            )

        def norms() -> nn.ModuleList:
            return nn.ModuleList(StyledInstanceNorm(style_size, num_channels) for _ in dilations)

        def periods() -> nn.ParameterList:
            return nn.ParameterList(torch.ones(1, num_channels, 1) for _ in dilations)

        self.convs1, self.convs2 = convolutions(dilations), convolutions((1,) * len(dilations))
        self.adain1, self.adain2 = norms(), norms()
        self.alpha1, self.alpha2 = periods(), periods()

    def forward(self, x: Tensor, style: Tensor) -> Tensor:
        firsts = zip(self.adain1, self.alpha1, self.convs1, strict=True)
        seconds = zip(self.adain2, self.alpha2, self.convs2, strict=True)
        for pair in zip(firsts, seconds, strict=True):
            inner = x
            for norm, alpha, convolution in pair:
                inner = convolution(_snake(norm(inner, style), alpha))
            x = x + inner
        return x


def _snake(x: Tensor, alpha: Tensor) -> Tensor:
    return x + torch.sin(alpha * x).square() / alpha
