"""Blocks of streaming codecs: ConvNeXt, and upsampling with residual units and snakes (DAC)."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.codec_layers.conv import CausalConv, CausalTransposedConv, LayerBuilder
from antiphon.nn.codec_layers.state import ColumnHistory
from antiphon.nn.layers import Linear, Snake

LAYER_NORM_EPSILON = 1e-6


@dataclass(frozen=True, slots=True)
class ConvNeXtBlock:
    """Depthwise convolution and feed-forward layer, added to the input.

    Attributes:
        norm: LayerNorm of the convolution's output: weight and bias.
    """

    depthwise: CausalConv
    norm: Linear
    wide: Linear
    narrow: Linear

    @classmethod
    def of(cls, builder: LayerBuilder, name: str) -> "ConvNeXtBlock":
        gamma = builder.weights[f"{name}.gamma"]
        weight = builder.weights[f"{name}.pwconv2.weight"] * gamma[:, None]
        bias = builder.weights[f"{name}.pwconv2.bias"] * gamma
        return cls(
            depthwise=CausalConv.of(builder, f"{name}.dwconv", groups=len(gamma)),
            norm=builder.linear(f"{name}.norm"),
            wide=builder.linear(f"{name}.pwconv1"),
            narrow=Linear(weight.to(builder.dtype), bias.to(builder.dtype)),
        )

    def __call__(self, x: Tensor, history: ColumnHistory) -> Tensor:
        hidden = self.depthwise(x, history)
        scale, shift = self.norm.weight, self.norm.bias
        hidden = F.layer_norm(hidden, scale.shape, scale, shift, LAYER_NORM_EPSILON)
        return x + self.narrow(F.gelu(self.wide(hidden)))


@dataclass(frozen=True, slots=True)
class ResidualUnit:
    """Two activated convolutions, the first dilated, added to the input."""

    snakes: tuple[Snake, Snake]
    convs: tuple[CausalConv, CausalConv]

    @classmethod
    def of(cls, builder: LayerBuilder, name: str, dilation: int) -> "ResidualUnit":
        first = CausalConv.of(builder, f"{name}.conv1", dilation=dilation)
        return cls(
            (Snake.of(builder.weights, f"{name}.act1"), Snake.of(builder.weights, f"{name}.act2")),
            (first, CausalConv.of(builder, f"{name}.conv2")),
        )

    def __call__(self, x: Tensor, history: ColumnHistory) -> Tensor:
        hidden = x
        for snake, conv in zip(self.snakes, self.convs, strict=True):
            hidden = conv(snake(hidden), history)
        return x + hidden


@dataclass(frozen=True, slots=True)
class UpsamplingBlock:
    """Upsampling followed by residual units."""

    snake: Snake
    upsample: CausalTransposedConv
    units: tuple[ResidualUnit, ...]

    @classmethod
    def of(
        cls, builder: LayerBuilder, name: str, rate: int, dilations: Sequence[int]
    ) -> "UpsamplingBlock":
        """Read ``name.block``: a snake, an upsampling, and a unit for each dilation."""
        return cls(
            Snake.of(builder.weights, f"{name}.block.0"),
            CausalTransposedConv.of(builder, f"{name}.block.1", rate),
            tuple(
                ResidualUnit.of(builder, f"{name}.block.{index}", dilation)
                for index, dilation in enumerate(dilations, 2)
            ),
        )

    def __call__(self, x: Tensor, history: ColumnHistory) -> Tensor:
        x = self.upsample(self.snake(x), history)
        for unit in self.units:
            x = unit(x, history)
        return x
