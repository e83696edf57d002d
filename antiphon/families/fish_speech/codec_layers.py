"""The codec's layers, built from the shared codec layers with their own names and formulas."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from antiphon.families.fish_speech.dual_ar import paired_order
from antiphon.nn.attention import HeadShape
from antiphon.nn.codec_layers.conv import CausalConv, LayerBuilder, ResidualUnit
from antiphon.nn.codec_layers.transformer import (
    CodecTransformer,
    CodecTransformerLayer,
    Frequencies,
    WindowAttention,
    norm_of,
)
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import Linear, Rotation, Snake, SwiGLU

_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class RoundedFrequencies(Frequencies):
    """Rotary embedding in bfloat16, as in training."""

    def at(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        angles = positions[..., None, None].float() * self.radians
        return Rotation(*(each.bfloat16().to(dtype) for each in (angles.cos(), angles.sin())))


def snake_of(builder: LayerBuilder, name: str) -> Snake:
    """Load ``name.alpha``, which is both the frequency and the inverse of the amplitude."""
    alpha = builder.weights[f"{name}.alpha"].flatten()
    return Snake(alpha, 1.0 / (alpha + _EPSILON))


def unit_of(builder: LayerBuilder, name: str, dilation: int) -> ResidualUnit:
    """Load the residual unit ``name.block``."""
    return ResidualUnit(
        (snake_of(builder, f"{name}.block.0"), snake_of(builder, f"{name}.block.2")),
        (
            CausalConv.of(builder, f"{name}.block.1", dilation=dilation),
            CausalConv.of(builder, f"{name}.block.3"),
        ),
    )


def transformer_of(
    builder: LayerBuilder, name: str, config: TransformerConfig, num_keys: int = 0
) -> CodecTransformer:
    """Load ``name``; for streaming, layers get rings of ``num_keys`` keys and values."""
    layers = tuple(
        _layer_of(builder, f"{name}.layers.{index}", config, num_keys)
        for index in range(config.num_layers)
    )
    norm = norm_of(builder, f"{name}.norm", config)
    radians = Frequencies.of(config, norm.weight.device).radians
    return CodecTransformer(None, layers, norm, None, RoundedFrequencies(radians))


def _layer_of(
    builder: LayerBuilder, name: str, config: TransformerConfig, num_keys: int
) -> CodecTransformerLayer:
    weights, feed_forward = builder.weights, f"{name}.feed_forward"

    def scaled(linear: str, scale: str) -> Linear:
        """Load a layer with the scale of its outputs folded in."""
        weight = weights[f"{linear}.weight"] * weights[f"{scale}.gamma"][:, None]
        return Linear(weight.to(builder.dtype))

    def converted(linear: Linear) -> Linear:
        return replace(linear, weight=linear.weight.to(builder.dtype))

    shape = HeadShape(config.num_heads, config.num_kv_heads, config.head_dim)
    joined = Linear.of(weights, f"{name}.attention.wqkv")
    ring = (num_keys, 2 * config.num_kv_heads, config.head_dim)
    return CodecTransformerLayer(
        norm_of(builder, f"{name}.attention_norm", config),
        WindowAttention(
            query_key_value=converted(shape.reordered(joined, paired_order(config.head_dim))),
            output=scaled(f"{name}.attention.wo", f"{name}.attention_layer_scale"),
            config=config,
            keys_values=builder.layout.add(*ring) if num_keys else None,
        ),
        norm_of(builder, f"{name}.ffn_norm", config),
        SwiGLU(
            converted(Linear.joined(weights, f"{feed_forward}.w1", f"{feed_forward}.w3")),
            scaled(f"{feed_forward}.w2", f"{name}.ffn_layer_scale"),
        ),
    )
