"""Layers that a style bends: normalisations whose gains and shifts are computed from it.

Names of parameters are the checkpoint's. Shapes are
``[B, channels, length]``, and of styles ``[B, size]``.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from antiphon.families.kokoro.padding import PaddedRows, own
from antiphon.nn import kernels

_SLOPE = 0.2
_HALF_POWER = 0.5**0.5


class StyledInstanceNorm(nn.Module):
    """Each channel to mean 0 and deviation 1, then to what the style wants; and an activation."""

    def __init__(self, style_size: int, num_channels: int) -> None:
        super().__init__()
        self.norm = nn.InstanceNorm1d(num_channels, affine=True)
        self.fc = nn.Linear(style_size, 2 * num_channels)

    def forward(
        self, x: Tensor, style: Tensor, rows: PaddedRows | None = None, alpha: Tensor | None = None
    ) -> Tensor:
        """Return channels that are ready for a convolution: with zeros behind rows' own columns.

        Args:
            rows: lengths of padded rows; ``None``: no padding.
            alpha: Snake parameter, ``[1, channels, 1]``; ``None``: the activation is a leaky ReLU.
        """
        styled, norm = self.fc(style), self.norm
        if rows is not None and kernels.run_on(x):
            from antiphon.nn.kernels.styled_norm import styled_norm

            affine, columns = (norm.weight, norm.bias), rows.lengths.columns
            return styled_norm(x, styled, affine, columns, alpha, epsilon=norm.eps, slope=_SLOPE)
        gain, shift = styled.unsqueeze(-1).chunk(2, dim=1)
        bent = (1 + gain) * (norm(x) if rows is None else _normed(x, norm, rows)) + shift
        active = functional.leaky_relu(bent, _SLOPE) if alpha is None else _snake(bent, alpha)
        return own(active, rows)


def _normed(x: Tensor, norm: nn.InstanceNorm1d, rows: PaddedRows) -> Tensor:
    centred = own(x - x @ rows.shares, rows)
    variance = centred.square() @ rows.shares
    return centred * (variance + norm.eps).rsqrt() * norm.weight[:, None] + norm.bias[:, None]


class StyledLayerNorm(nn.Module):
    """The same over channels, of ``[B, length, channels]``."""

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

    def forward(self, x: Tensor, style: Tensor, rows: PaddedRows | None = None) -> Tensor:
        inner = self.norm1(x, style, rows)
        if self.doubles:
            pool = self.pool
            inner = pool(inner) if rows is None else own(_doubled(inner, pool), rows.doubled)
            x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        rows = self.rows_after(rows)
        inner = self.norm2(self.conv1(inner), style, rows)
        shortcut: Tensor = self.conv1x1(x) if self._is_learned else x
        bent: Tensor = (self.conv2(inner) + shortcut) * _HALF_POWER
        return bent

    def rows_after(self, rows: PaddedRows | None) -> PaddedRows | None:
        """Return whose the columns of the result are."""
        return rows.doubled if rows is not None and self.doubles else rows


def _doubled(x: Tensor, pool: nn.ConvTranspose1d) -> Tensor:
    """Return what ``pool`` makes of ``x``; a GPU's library is slow at single channels."""
    first, middle, last = pool.weight.unbind(dim=2)
    assert pool.bias is not None
    bias = pool.bias[:, None]
    odd = x * last + functional.pad(x[:, :, 1:], (0, 1)) * first + bias
    return torch.stack((x * middle + bias, odd), dim=-1).flatten(2)


class StyledSnakeBlock(nn.Module):
    """Pairs of styled convolutions with periodic activations, each pair beside a shortcut."""

    def __init__(
        self, num_channels: int, kernel_size: int, dilations: tuple[int, ...], style_size: int
    ) -> None:
        super().__init__()

        def convolutions(each_dilation: tuple[int, ...]) -> nn.ModuleList:
            size = (num_channels, num_channels, kernel_size)
            pairs = ((each, (kernel_size - 1) * each // 2) for each in each_dilation)
            return nn.ModuleList(nn.Conv1d(*size, 1, padding, each) for each, padding in pairs)

        def norms() -> nn.ModuleList:
            return nn.ModuleList(StyledInstanceNorm(style_size, num_channels) for _ in dilations)

        def periods() -> nn.ParameterList:
            return nn.ParameterList(torch.ones(1, num_channels, 1) for _ in dilations)

        self.convs1, self.convs2 = convolutions(dilations), convolutions((1,) * len(dilations))
        self.adain1, self.adain2 = norms(), norms()
        self.alpha1, self.alpha2 = periods(), periods()

    def forward(self, x: Tensor, style: Tensor, rows: PaddedRows | None = None) -> Tensor:
        firsts = zip(self.adain1, self.alpha1, self.convs1, strict=True)
        seconds = zip(self.adain2, self.alpha2, self.convs2, strict=True)
        for pair in zip(firsts, seconds, strict=True):
            inner = x
            for norm, alpha, convolution in pair:
                inner = convolution(norm(inner, style, rows, alpha))
            x = x + inner
        return x


def _snake(x: Tensor, alpha: Tensor) -> Tensor:
    return x + torch.sin(alpha * x).square() / alpha
