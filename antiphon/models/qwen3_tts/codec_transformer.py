"""The transformer of the codec's decoder: each frame attends to a window of frames before it."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.models.qwen3_tts.codec_layers import Source
from antiphon.models.qwen3_tts.codec_rope import Frequencies
from antiphon.models.qwen3_tts.codec_state import Part, Past
from antiphon.models.qwen3_tts.config import TransformerConfig
from antiphon.nn.layers import Linear, RMSNorm, Rotation, SwiGLU


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head attention over a window; keys are rotated by their absolute positions.

    Attributes:
        query_key_value: to the heads of queries, then keys, then values.
        output: scaled as the layer's branch is.
        before: the ring of keys and values, ``(num_keys, 2 * num_kv_heads, head_dim)``.
    """

    query_key_value: Linear
    output: Linear
    config: TransformerConfig
    before: Part

    @classmethod
    def of(cls, source: Source, name: str, config: TransformerConfig, num_keys: int) -> "Attention":
        """Take ``name.self_attn`` and its layer scale."""
        names = (f"{name}.self_attn.{part}_proj" for part in "qkv")
        joined = Linear.joined(source.weights, *names)
        return cls(
            query_key_value=Linear(joined.weight.to(source.dtype)),
            output=_scaled(source, f"{name}.self_attn.o_proj", f"{name}.self_attn_layer_scale"),
            config=config,
            before=source.layout.add(num_keys, 2 * config.num_kv_heads, config.head_dim),
        )

    def __call__(self, x: Tensor, rotation: Rotation, past: Past) -> Tensor:
        num_heads, num_kv_heads = self.config.num_heads, self.config.num_kv_heads
        heads = torch.unflatten(self.query_key_value(x), 2, (-1, self.config.head_dim))
        turning, values = torch.split(heads, [num_heads + num_kv_heads, num_kv_heads], dim=2)
        queries, keys = torch.split(rotation(turning), [num_heads, num_kv_heads], dim=2)
        remembered = past.recall(torch.cat((keys, values), dim=2), self.before)
        keys, values = remembered.transpose(1, 2).chunk(2, dim=1)
        attended = F.scaled_dot_product_attention(
            queries.transpose(1, 2),
            keys,
            values,
            attn_mask=past.visible,
            enable_gqa=num_heads != num_kv_heads,
        )
        return self.output(attended.transpose(1, 2).flatten(2))


@dataclass(frozen=True, slots=True)
class TransformerLayer:
    """Attention and feed-forward, each normalised and added."""

    attention_norm: RMSNorm
    attention: Attention
    feed_forward_norm: RMSNorm
    feed_forward: SwiGLU

    @classmethod
    def of(
        cls, source: Source, name: str, config: TransformerConfig, num_keys: int
    ) -> "TransformerLayer":
        joined = Linear.joined(source.weights, f"{name}.mlp.gate_proj", f"{name}.mlp.up_proj")
        return cls(
            _norm(source, f"{name}.input_layernorm", config),
            Attention.of(source, name, config, num_keys),
            _norm(source, f"{name}.post_attention_layernorm", config),
            SwiGLU(
                Linear(joined.weight.to(source.dtype)),
                _scaled(source, f"{name}.mlp.down_proj", f"{name}.mlp_layer_scale"),
            ),
        )

    def __call__(self, x: Tensor, rotation: Rotation, past: Past) -> Tensor:
        x = x + self.attention(self.attention_norm(x), rotation, past)
        return x + self.feed_forward(self.feed_forward_norm(x))


@dataclass(frozen=True, slots=True)
class CodecTransformer:
    """Layers between two projections, over frames."""

    input: Linear
    layers: tuple[TransformerLayer, ...]
    norm: RMSNorm
    output: Linear
    frequencies: Frequencies

    @classmethod
    def of(
        cls, source: Source, name: str, config: TransformerConfig, num_keys: int
    ) -> "CodecTransformer":
        """Take ``name``; every layer gets rings of ``num_keys`` keys and values."""
        project = source.linear(f"{name}.input_proj")
        return cls(
            input=project,
            layers=tuple(
                TransformerLayer.of(source, f"{name}.layers.{index}", config, num_keys)
                for index in range(config.num_layers)
            ),
            norm=_norm(source, f"{name}.norm", config),
            output=source.linear(f"{name}.output_proj"),
            frequencies=Frequencies.of(config, project.weight.device),
        )

    def __call__(self, x: Tensor, past: Past) -> Tensor:
        """Map ``[B, n, latent_dim]`` to the same shape."""
        x = self.input(x)
        rotation = self.frequencies.at(past.positions, x.dtype)
        for layer in self.layers:
            x = layer(x, rotation, past)
        return self.output(self.norm(x))


def _norm(source: Source, name: str, config: TransformerConfig) -> RMSNorm:
    return RMSNorm(source.tensor(f"{name}.weight"), config.norm_eps)


def _scaled(source: Source, name: str, scale_name: str) -> Linear:
    """Take a layer with the scale of its outputs multiplied in."""
    scale = source.weights[f"{scale_name}.scale"]
    return Linear((source.weights[f"{name}.weight"] * scale[:, None]).to(source.dtype))
