"""Codec transformers: RMSNorm or LayerNorm, SwiGLU or GELU, windowed or full causal attention.

The kinds of norm and feed-forward layer follow from the tensors' names.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.nn.codec_layers.conv import LayerBuilder
from antiphon.nn.codec_layers.state import History, StateField
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import Linear, RMSNorm, Rotation, SwiGLU


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """LayerNorm with weight and bias."""

    weight: Tensor
    bias: Tensor
    epsilon: float

    def __call__(self, x: Tensor) -> Tensor:
        return F.layer_norm(x, self.weight.shape, self.weight, self.bias, self.epsilon)


@dataclass(frozen=True, slots=True)
class GeluFeedForward:
    """``narrow(gelu(wide(x)))``."""

    wide: Linear
    narrow: Linear

    def __call__(self, x: Tensor) -> Tensor:
        return self.narrow(F.gelu(self.wide(x)))


@dataclass(frozen=True, slots=True)
class Frequencies:
    """Rotary embedding of any position: radians per position, float32 ``[head_dim]``.

    Streams are unbounded, so no tables can be built. The second half equals the first.
    """

    radians: Tensor

    @classmethod
    def of(cls, head_dim: int, theta: float, device: torch.device) -> "Frequencies":
        exponents = torch.arange(0, head_dim, 2, device=device).float() / head_dim
        return cls((1.0 / theta**exponents).repeat(2))

    @property
    def halves(self) -> Tensor:
        """Radians of half a head, float32 ``[head_dim / 2]``."""
        return self.radians[: len(self.radians) // 2].contiguous()

    def at(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        """Return the rotation of ``positions``, int64 of any shape."""
        angles = positions[..., None, None].float() * self.radians
        return Rotation(angles.cos().to(dtype), angles.sin().to(dtype))


@dataclass(frozen=True, slots=True)
class WindowAttention:
    """Multi-head attention; keys are rotated by their absolute positions.

    Attributes:
        query_key_value: joined product of queries, keys and values.
        output: output product, with the layer scale folded in.
        keys_values: ring of a stream, ``(num_keys, 2 * num_kv_heads, head_dim)``; ``None`` if the
            layer never streams.
    """

    query_key_value: Linear
    output: Linear
    config: TransformerConfig
    keys_values: StateField | None

    @classmethod
    def of(
        cls, builder: LayerBuilder, name: str, config: TransformerConfig, num_keys: int
    ) -> "WindowAttention":
        """Read ``name.self_attn`` and its layer scale."""
        names = (f"{name}.self_attn.{part}_proj" for part in "qkv")
        joined = Linear.joined(builder.weights, *names)
        shape = (num_keys, 2 * config.num_kv_heads, config.head_dim)
        return cls(
            query_key_value=Linear(joined.weight.to(builder.dtype)),
            output=builder.scaled(f"{name}.self_attn.o_proj", f"{name}.self_attn_layer_scale"),
            config=config,
            keys_values=builder.layout.add(*shape) if num_keys else None,
        )

    def __call__(self, x: Tensor, rotation: Rotation, history: History) -> Tensor:
        num_heads, num_kv_heads = self.config.num_heads, self.config.num_kv_heads
        heads = torch.unflatten(self.query_key_value(x), 2, (-1, self.config.head_dim))
        rotated, values = torch.split(heads, [num_heads + num_kv_heads, num_kv_heads], dim=2)
        queries, keys = torch.split(rotation(rotated), [num_heads, num_kv_heads], dim=2)
        joined = history.append_keys_values(torch.cat((keys, values), dim=2), self.keys_values)
        keys, values = joined.transpose(1, 2).chunk(2, dim=1)
        attended = F.scaled_dot_product_attention(
            queries.transpose(1, 2),
            keys,
            values,
            attn_mask=history.mask,
            is_causal=history.mask is None,
            enable_gqa=num_heads != num_kv_heads,
        )
        return self.output(attended.transpose(1, 2).flatten(2))


@dataclass(frozen=True, slots=True)
class CodecTransformerLayer:
    """Attention and feed-forward, each normed, scaled per channel and added."""

    attention_norm: RMSNorm | LayerNorm
    attention: WindowAttention
    feed_forward_norm: RMSNorm | LayerNorm
    feed_forward: SwiGLU | GeluFeedForward

    @classmethod
    def of(
        cls, builder: LayerBuilder, name: str, config: TransformerConfig, num_keys: int
    ) -> "CodecTransformerLayer":
        mlp, scale = f"{name}.mlp", f"{name}.mlp_layer_scale"
        feed_forward: SwiGLU | GeluFeedForward
        if f"{mlp}.fc1.weight" in builder.weights:
            wide = Linear.of(builder.weights, f"{mlp}.fc1")
            feed_forward = GeluFeedForward(wide, builder.scaled(f"{mlp}.fc2", scale))
        else:
            gate_up = Linear.joined(builder.weights, f"{mlp}.gate_proj", f"{mlp}.up_proj")
            feed_forward = SwiGLU(
                Linear(gate_up.weight.to(builder.dtype)), builder.scaled(f"{mlp}.down_proj", scale)
            )
        return cls(
            norm_of(builder, f"{name}.input_layernorm", config),
            WindowAttention.of(builder, name, config, num_keys),
            norm_of(builder, f"{name}.post_attention_layernorm", config),
            feed_forward,
        )

    def __call__(self, x: Tensor, rotation: Rotation, history: History) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rotation, history)
        return x + self.feed_forward(self.feed_forward_norm(x))


@dataclass(frozen=True, slots=True)
class CodecTransformer:
    """Layers over frames, with optional projections and norm around them."""

    input: Linear | None
    layers: tuple[CodecTransformerLayer, ...]
    norm: RMSNorm | LayerNorm | None
    output: Linear | None
    frequencies: Frequencies

    @classmethod
    def of(
        cls, builder: LayerBuilder, name: str, config: TransformerConfig, num_keys: int = 0
    ) -> "CodecTransformer":
        """Read ``name``; streaming layers get rings of ``num_keys`` keys and values."""
        layers = tuple(
            CodecTransformerLayer.of(builder, f"{name}.layers.{index}", config, num_keys)
            for index in range(config.num_layers)
        )
        has_norm = f"{name}.norm.weight" in builder.weights
        device = layers[0].attention.output.weight.device
        return cls(
            input=builder.optional_linear(f"{name}.input_proj"),
            layers=layers,
            norm=norm_of(builder, f"{name}.norm", config) if has_norm else None,
            output=builder.optional_linear(f"{name}.output_proj"),
            frequencies=Frequencies.of(config.head_dim, config.rope_theta, device),
        )

    def __call__(self, x: Tensor, history: History) -> Tensor:
        """Map ``[B, n, width]`` to the same shape."""
        x = self.input(x) if self.input else x
        rotation = self.frequencies.at(history.positions, x.dtype)
        for layer in self.layers:
            x = layer(x, rotation, history)
        x = self.norm(x) if self.norm else x
        return self.output(x) if self.output else x


def norm_of(builder: LayerBuilder, name: str, config: TransformerConfig) -> RMSNorm | LayerNorm:
    """Read a norm: a LayerNorm if it has a bias."""
    weight, bias = builder.tensor(f"{name}.weight"), builder.weights.get(f"{name}.bias")
    if bias is None:
        return RMSNorm(weight, config.norm_eps)
    return LayerNorm(weight, bias.to(builder.dtype), config.norm_eps)
