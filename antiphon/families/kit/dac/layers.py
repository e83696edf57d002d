"""Causal layers of DAC; a snake has one parameter, its frequency and inverse amplitude."""

from antiphon.nn.codec_layers.conv import (
    CausalConv,
    CausalTransposedConv,
    LayerBuilder,
    ResidualUnit,
    UpsamplingBlock,
)
from antiphon.nn.layers import Snake, Weights

DILATIONS = (1, 3, 9)
"""Dilations of the residual units of each block."""
_EPSILON = 1e-9


def snake_of(weights: Weights, name: str, *, is_column: bool = False) -> Snake:
    """Read ``name.alpha``, for ``[..., channels]`` or for columns of channels."""
    frequency = weights[f"{name}.alpha"].flatten()
    frequency = frequency[:, None] if is_column else frequency
    return Snake(frequency, 1.0 / (frequency + _EPSILON))


def unit_of(
    builder: LayerBuilder, name: str, dilation: int, *, is_depthwise: bool = False
) -> ResidualUnit:
    """Read the residual unit ``name.block``; ``is_depthwise``: whether its first convolution is."""
    part, weights = f"{name}.block", builder.weights
    groups = weights[f"{part}.0.alpha"].numel() if is_depthwise else 1
    first = CausalConv.of(builder, f"{part}.1", dilation=dilation, groups=groups)
    return ResidualUnit(
        (snake_of(weights, f"{part}.0"), snake_of(weights, f"{part}.2")),
        (first, CausalConv.of(builder, f"{part}.3")),
    )


def units_of(
    builder: LayerBuilder, name: str, first: int, *, is_depthwise: bool = False
) -> tuple[ResidualUnit, ...]:
    """Read the residual units of a block, numbered from ``first``."""
    return tuple(
        unit_of(builder, f"{name}.{index}", dilation, is_depthwise=is_depthwise)
        for index, dilation in enumerate(DILATIONS, first)
    )


def upsampling_of(
    builder: LayerBuilder, name: str, rate: int, *, is_depthwise: bool = False
) -> UpsamplingBlock:
    """Read a block of the decoder: a snake, an upsampling and residual units."""
    upsample = CausalTransposedConv.of(builder, f"{name}.1", rate)
    units = units_of(builder, name, 2, is_depthwise=is_depthwise)
    return UpsamplingBlock(snake_of(builder.weights, f"{name}.0"), upsample, units)
