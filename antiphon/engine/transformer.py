"""A stack of decoder layers in the manner of Qwen3: normed queries and keys, rotary, SwiGLU."""

from dataclasses import dataclass

from torch import Tensor

from antiphon.engine.attention import Attend
from antiphon.engine.heads import Heads, NormedHeads
from antiphon.engine.layers import Linear, RMSNorm, Rope, Rotation, SwiGLU, Weights


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention, then feed-forward, each normed before and added to what went in."""

    heads: NormedHeads
    attention_norm: RMSNorm
    query_key_value: Linear
    output: Linear
    feed_forward_norm: RMSNorm
    feed_forward: SwiGLU

    @classmethod
    def of(cls, weights: Weights, name: str, heads: Heads, norm_eps: float) -> "DecoderLayer":
        def norm(part: str) -> RMSNorm:
            return RMSNorm(weights[f"{name}.{part}.weight"], norm_eps)

        attention = f"{name}.self_attn"
        return cls(
            heads=NormedHeads(heads, norm("self_attn.q_norm"), norm("self_attn.k_norm")),
            attention_norm=norm("input_layernorm"),
            query_key_value=Linear.joined(
                weights, *(f"{attention}.{part}_proj" for part in ("q", "k", "v"))
            ),
            output=Linear.of(weights, f"{attention}.o_proj"),
            feed_forward_norm=norm("post_attention_layernorm"),
            feed_forward=SwiGLU.of(weights, f"{name}.mlp"),
        )

    def __call__(
        self, index: int, states: Tensor, normed: Tensor, rotation: Rotation, attend: Attend
    ) -> tuple[Tensor, Tensor]:
        """Take the states and them normed; return the states, and what is to be added to them."""
        joined = self.query_key_value(normed)
        attended = attend(index, joined, self.heads, rotation)
        states, normed = self.feed_forward_norm.after(states, self.output(attended))
        return states, self.feed_forward(normed)


@dataclass(frozen=True, slots=True)
class Transformer:
    """All layers and the final norm."""

    layers: tuple[DecoderLayer, ...]
    norm: RMSNorm
    rope: Rope

    def __call__(self, states: Tensor, rotation: Rotation, attend: Attend) -> Tensor:
        """Return the normed states of ``[rows, positions, hidden_size]``, same shape."""
        norms = (*(layer.attention_norm for layer in self.layers[1:]), self.norm)
        normed = self.layers[0].attention_norm(states)
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            states, branch = layer(index, states, normed, rotation, attend)
            states, normed = next_norm.after(states, branch)
        return normed
