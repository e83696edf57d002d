"""A stack of decoder layers in the manner of Qwen3: normed queries and keys, rotary, SwiGLU."""

from dataclasses import dataclass

import torch
from torch import Tensor

from antiphon.engine.attention import Attend
from antiphon.engine.layers import Linear, RMSNorm, Rope, Rotation, SwiGLU, Weights


@dataclass(frozen=True, slots=True)
class Heads:
    """How a layer's queries, keys and values are cut into heads."""

    num_heads: int
    num_kv_heads: int
    head_dim: int

    def split(self, joined: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Cut ``[..., (num_heads + 2 * num_kv_heads) * head_dim]`` into queries, keys, values."""
        heads = joined.view(*joined.shape[:-1], -1, self.head_dim)
        sizes = [self.num_heads, self.num_kv_heads, self.num_kv_heads]
        queries, keys, values = torch.split(heads, sizes, dim=-2)
        return queries, keys, values


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention, then feed-forward, each normed before and added to what went in."""

    heads: Heads
    attention_norm: RMSNorm
    query_key_value: Linear
    query_norm: RMSNorm
    key_norm: RMSNorm
    output: Linear
    feed_forward_norm: RMSNorm
    feed_forward: SwiGLU

    @classmethod
    def of(cls, weights: Weights, name: str, heads: Heads, norm_eps: float) -> "DecoderLayer":
        def norm(part: str) -> RMSNorm:
            return RMSNorm(weights[f"{name}.{part}.weight"], norm_eps)

        attention = f"{name}.self_attn"
        return cls(
            heads=heads,
            attention_norm=norm("input_layernorm"),
            query_key_value=Linear.joined(
                weights, *(f"{attention}.{part}_proj" for part in ("q", "k", "v"))
            ),
            query_norm=norm("self_attn.q_norm"),
            key_norm=norm("self_attn.k_norm"),
            output=Linear.of(weights, f"{attention}.o_proj"),
            feed_forward_norm=norm("post_attention_layernorm"),
            feed_forward=SwiGLU.of(weights, f"{name}.mlp"),
        )

    def __call__(self, index: int, states: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        joined = self.query_key_value(self.attention_norm(states))
        queries, keys, values = self.heads.split(joined)
        queries = rotation(self.query_norm(queries))
        keys = rotation(self.key_norm(keys))
        states = states + self.output(attend(index, queries, keys, values).flatten(-2))
        return states + self.feed_forward(self.feed_forward_norm(states))


@dataclass(frozen=True, slots=True)
class Transformer:
    """All layers and the final norm."""

    layers: tuple[DecoderLayer, ...]
    norm: RMSNorm
    rope: Rope

    def __call__(self, states: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        """Return the normed states of ``[rows, positions, hidden_size]``, same shape."""
        for index, layer in enumerate(self.layers):
            states = layer(index, states, rotation, attend)
        return self.norm(states)
