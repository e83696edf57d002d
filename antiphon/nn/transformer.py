"""A stack of decoder layers in the manner of Qwen3: normed queries and keys, rotary, SwiGLU."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from antiphon.nn import kernels
from antiphon.nn.attention import Attend
from antiphon.nn.layers import Linear, RMSNorm, Rope, Rotation, SwiGLU, Weights
from antiphon.nn.qkv import Heads, NormedHeads

if TYPE_CHECKING:  # it needs Triton
    from antiphon.nn.kernels.fused_linear import Scaled


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
    """All layers and the final norm.

    A GPU computes few rows by kernels of which each holds a product and what is around it.

    Attributes:
        is_batch_invariant: see `Linear`; it has a price.
    """

    layers: tuple[DecoderLayer, ...]
    norm: RMSNorm
    rope: Rope
    is_batch_invariant: bool = False

    @property
    def first_norm(self) -> Tensor:
        """The weight of the norm that states meet first."""
        return self.layers[0].attention_norm.weight

    def __call__(self, states: "Tensor | Scaled", rotation: Rotation, attend: Attend) -> Tensor:
        """Return normed states, ``[rows, positions, hidden_size]``.

        Args:
            states: of the result's shape; or of one position a row, scaled by `first_norm`.
            rotation: of the positions.
            attend: keeps keys and values.
        """
        if self._is_fused(states):
            final = self._run_fused(states, rotation, attend).states
            return self.norm(final.view(-1, _num_positions(states), final.shape[1]))
        if not isinstance(states, Tensor):
            states = states.states[:, None]
        norms = (*(layer.attention_norm for layer in self.layers[1:]), self.norm)
        normed = self.layers[0].attention_norm(states)
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            states, branch = layer(index, states, normed, rotation, attend)
            states, normed = next_norm.after(states, branch)
        return normed

    def project(
        self, states: "Tensor | Scaled", rotation: Rotation, attend: Attend, head: Linear
    ) -> Tensor:
        """Return ``head`` of the normed state of each row's last position, ``[rows, outputs]``.

        Takes what a call takes, and a head without a bias.
        """
        if not self._is_fused(states):
            return head(self(states, rotation, attend)[:, -1])
        from antiphon.nn.kernels import fused_linear

        last = self._run_fused(states, rotation, attend).last(_num_positions(states))
        product = fused_linear.Products(self.is_batch_invariant)
        return product.normed(last, head.weight, self.norm.epsilon)

    def _run_fused(self, states: "Tensor | Scaled", rotation: Rotation, attend: Attend) -> "Scaled":
        """Return the states after all layers, scaled by the final norm; a row a position."""
        from antiphon.nn.kernels import fused_linear

        product, num_positions = (
            fused_linear.Products(self.is_batch_invariant),
            _num_positions(states),
        )
        if isinstance(states, Tensor):
            states = fused_linear.scale(states.flatten(0, 1), self.first_norm)
        norms = (*(layer.attention_norm for layer in self.layers[1:]), self.norm)
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            epsilon, middle_norm = layer.attention_norm.epsilon, layer.feed_forward_norm
            joined = product.normed(states, layer.query_key_value.weight, epsilon)
            joined = joined.view(-1, num_positions, joined.shape[1])
            attended = attend(index, joined, layer.heads, rotation).flatten(0, 1)
            states = product.added(states.states, attended, layer.output.weight, middle_norm.weight)
            gated = product.normed(
                states, layer.feed_forward.gate_up.weight, middle_norm.epsilon, is_gated=True
            )
            down = layer.feed_forward.down.weight
            states = product.added(states.states, gated, down, next_norm.weight)
        return states

    def _is_fused(self, states: "Tensor | Scaled") -> bool:
        """Return whether states are computed by fused products."""
        some = states if isinstance(states, Tensor) else states.states
        if not kernels.run_on(some):
            return False
        from antiphon.nn.kernels import fused_linear

        return some.shape[:-1].numel() <= fused_linear.MAX_ROWS or self.is_batch_invariant


def _num_positions(states: "Tensor | Scaled") -> int:
    return states.shape[1] if isinstance(states, Tensor) else 1
