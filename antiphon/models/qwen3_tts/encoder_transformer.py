"""The transformer of the codec's encoder: LayerNorm, GELU, and attention to all steps so far."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.qwen3_tts.codec_rope import Frequencies
from antiphon.models.qwen3_tts.config import TransformerConfig
from antiphon.nn.layers import Linear, Rotation, Weights


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """Vectors brought to mean 0 and variance 1, then scaled and shifted."""

    weight: Tensor
    bias: Tensor
    epsilon: float

    @classmethod
    def of(cls, weights: Weights, name: str, epsilon: float) -> "LayerNorm":
        return cls(weights[f"{name}.weight"], weights[f"{name}.bias"], epsilon)

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head causal attention."""

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    config: TransformerConfig

    @classmethod
    def of(cls, weights: Weights, name: str, config: TransformerConfig) -> "Attention":
        query, key, value, output = (
            Linear.of(weights, f"{name}.{part}_proj") for part in ("q", "k", "v", "o")
        )
        return cls(query, key, value, output, config)

    def __call__(self, x: Tensor, rotation: Rotation) -> Tensor:
        queries, keys, values = (
            torch.unflatten(project(x), 2, (-1, self.config.head_dim))
            for project in (self.query, self.key, self.value)
        )
        attended = F.scaled_dot_product_attention(
            rotation(queries).transpose(1, 2),
            rotation(keys).transpose(1, 2),
            values.transpose(1, 2),
            is_causal=True,
            enable_gqa=self.config.num_heads != self.config.num_kv_heads,
        )
        return self.output(attended.transpose(1, 2).flatten(2))


@dataclass(frozen=True, slots=True)
class TransformerLayer:
    """Attention and feed-forward, each normalised, scaled per channel and added."""

    attention_norm: LayerNorm
    attention: Attention
    attention_scale: Tensor
    feed_forward_norm: LayerNorm
    wide: Linear
    narrow: Linear
    feed_forward_scale: Tensor

    @classmethod
    def of(cls, weights: Weights, name: str, config: TransformerConfig) -> "TransformerLayer":
        return cls(
            LayerNorm.of(weights, f"{name}.input_layernorm", config.norm_eps),
            Attention.of(weights, f"{name}.self_attn", config),
            weights[f"{name}.self_attn_layer_scale.scale"],
            LayerNorm.of(weights, f"{name}.post_attention_layernorm", config.norm_eps),
            Linear.of(weights, f"{name}.mlp.fc1"),
            Linear.of(weights, f"{name}.mlp.fc2"),
            weights[f"{name}.mlp_layer_scale.scale"],
        )

    def __call__(self, x: Tensor, rotation: Rotation) -> Tensor:
        x = x + self.attention_scale * self.attention(self.attention_norm(x), rotation)
        hidden = F.gelu(self.wide(self.feed_forward_norm(x)))
        return x + self.feed_forward_scale * self.narrow(hidden)


@dataclass(frozen=True, slots=True)
class EncoderTransformer:
    """Layers over steps."""

    layers: tuple[TransformerLayer, ...]
    config: TransformerConfig

    @classmethod
    def of(cls, weights: Weights, name: str, config: TransformerConfig) -> "EncoderTransformer":
        layers = (
            TransformerLayer.of(weights, f"{name}.layers.{index}", config)
            for index in range(config.num_layers)
        )
        return cls(tuple(layers), config)

    def __call__(self, x: Tensor) -> Tensor:
        """Map ``[B, t, hidden_size]`` to the same shape."""
        positions = torch.arange(x.shape[1], device=x.device)
        rotation = Frequencies.of(self.config, x.device).at(positions, x.dtype)
        for layer in self.layers:
            x = layer(x, rotation)
        return x
