"""A stack of decoder layers: rotary attention and SwiGLU, with or without q/k norms and biases.

Tensor names follow Hugging Face's Llama and Qwen checkpoints.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor

from antiphon.nn.attention import Attend, HeadShape, KVShape, QKVHeads
from antiphon.nn.cpu.packed_layers import packed, packed_gate, to_pack
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import Linear, RMSNorm, Rope, Rotation, SwiGLU, Weights, rotary_order

if TYPE_CHECKING:  # needs Triton
    from antiphon.nn.kernels.fused_linear import PreNormState

States: TypeAlias = "Tensor | PreNormState"
"""States of positions, ``[rows, positions, hidden_size]``; or scaled for a norm, in rows."""
ALL = slice(None)
"""All positions of a row."""


@dataclass(frozen=True, slots=True)
class DecoderLayer:
    """Attention, then feed-forward, each pre-normed and added to its input.

    Attributes:
        attention_output_norm: norm of the attention output, as in GLM-4; ``None``: no norm.
        feed_forward_output_norm: norm of the feed-forward output; ``None``: no norm.
    """

    heads: QKVHeads
    attention_norm: RMSNorm
    query_key_value: Linear
    output: Linear
    feed_forward_norm: RMSNorm
    feed_forward: SwiGLU
    attention_output_norm: RMSNorm | None = None
    feed_forward_output_norm: RMSNorm | None = None

    @classmethod
    def of(cls, weights: Weights, name: str, config: TransformerConfig) -> "DecoderLayer":
        """Read the layer ``name``, with biases and additional norms if present."""
        attention = f"{name}.self_attn"
        order = rotary_order(config.head_dim, config.num_rotated)

        def norm(part: str) -> RMSNorm:
            return RMSNorm(weights[f"{name}.{part}.weight"], config.norm_eps)

        def output_norm(part: str) -> RMSNorm | None:
            return norm(part) if f"{name}.{part}.weight" in weights else None

        def head_norm(part: str) -> RMSNorm | None:
            weight = weights.get(f"{attention}.{part}.weight")
            return None if weight is None else RMSNorm(weight[order], config.norm_eps)

        products = to_pack(weights)
        joined = Linear.joined(products, *(f"{attention}.{part}_proj" for part in "qkv"))
        heads = HeadShape(config.num_heads, config.num_kv_heads, config.head_dim)
        return cls(
            heads=QKVHeads(heads, head_norm("q_norm"), head_norm("k_norm")),
            attention_norm=norm("input_layernorm"),
            query_key_value=packed(heads.reordered(joined, order), products),
            output=packed(Linear.of(products, f"{attention}.o_proj"), products),
            feed_forward_norm=norm("post_attention_layernorm"),
            feed_forward=packed_gate(SwiGLU.of(products, f"{name}.mlp"), products),
            attention_output_norm=output_norm("post_self_attn_layernorm"),
            feed_forward_output_norm=output_norm("post_mlp_layernorm"),
        )

    @property
    def has_output_norms(self) -> bool:
        """Whether branch outputs are normed, which fused products do not support."""
        return self.attention_output_norm is not None or self.feed_forward_output_norm is not None

    def __call__(
        self,
        index: int,
        states: Tensor,
        normed: Tensor,
        rotation: Rotation,
        attend: Attend,
        wanted: slice = ALL,
    ) -> tuple[Tensor, Tensor]:
        """Return the states after attention, and the feed-forward branch to be added to them.

        Takes the states and their norm. Both results cover only the ``wanted`` positions; the
        others are attended to.
        """
        joined = self.query_key_value(normed)
        attended = attend(index, joined, self.heads, rotation)
        states, branch = states[:, wanted], self.output(attended[:, wanted])
        if self.attention_output_norm is not None:
            branch = self.attention_output_norm(branch)
        states, normed = self.feed_forward_norm.after(states, branch)
        branch = self.feed_forward(normed)
        if self.feed_forward_output_norm is not None:
            branch = self.feed_forward_output_norm(branch)
        return states, branch


@dataclass(frozen=True, slots=True)
class Transformer:
    """All layers and the final norm.

    On a GPU, few rows are computed by kernels that fuse a product with the operations around it.

    Attributes:
        is_batch_invariant: batch invariance as in `Linear`; it costs time.
        is_normed_last: whether a call ends with the final norm; otherwise the caller applies it.
    """

    layers: tuple[DecoderLayer, ...]
    norm: RMSNorm
    rope: Rope
    is_batch_invariant: bool = False
    is_normed_last: bool = True

    @classmethod
    def of(
        cls,
        weights: Weights,
        name: str,
        config: TransformerConfig,
        max_positions: int,
        *,
        is_batch_invariant: bool = False,
    ) -> "Transformer":
        """Read layers and final norm under ``name`` from tensors of one type and on one device."""
        norm = RMSNorm(weights[f"{name}.norm.weight"], config.norm_eps)
        return cls(
            layers=tuple(
                DecoderLayer.of(weights, f"{name}.layers.{index}", config)
                for index in range(config.num_layers)
            ),
            norm=norm,
            rope=Rope.build(config, max_positions, like=norm.weight),
            is_batch_invariant=is_batch_invariant,
        )

    @property
    def kv_shape(self) -> KVShape:
        heads = self.layers[0].heads.shape
        return KVShape(len(self.layers), heads.num_kv_heads, heads.head_dim)

    @property
    def has_biases(self) -> bool:
        """Whether a fused product has a bias, which fusion does not support."""
        linears = (
            (each.output, each.feed_forward.gate_up, each.feed_forward.down) for each in self.layers
        )
        return any(linear.bias is not None for layer in linears for linear in layer)

    @property
    def has_output_norms(self) -> bool:
        """Whether layers norm their outputs; see `DecoderLayer`."""
        return any(layer.has_output_norms for layer in self.layers)

    @property
    def first_norm(self) -> Tensor:
        """Weight of the first layer's norm."""
        return self.layers[0].attention_norm.weight

    def __call__(
        self, states: States, rotation: Rotation, attend: Attend, wanted: slice = ALL
    ) -> Tensor:
        """Return the final states, normed or not, ``[rows, positions, hidden_size]``.

        Args:
            states: input states of that shape, or pre-normed by `first_norm`, one row per position.
            wanted: positions to return; the last layer computes the operations after attention for
                these alone.
        """
        if self._is_fused(states):
            final = self._run_fused(states, rotation, attend).states
            final = final.view(-1, _num_positions(states), final.shape[1])
            final = final[:, wanted]
            return self.norm(final) if self.is_normed_last else final
        if not isinstance(states, Tensor):
            rows = states.states
            states = rows.reshape(-1, states.num_positions, rows.shape[1])
        norms = (*(layer.attention_norm for layer in self.layers[1:]), self.norm)
        normed = self.layers[0].attention_norm(states)
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            is_last = index == len(self.layers) - 1
            part = wanted if is_last else ALL
            states, branch = layer(index, states, normed, rotation, attend, part)
            states, normed = next_norm.after(states, branch)
        return normed if self.is_normed_last else states

    def project(self, states: States, rotation: Rotation, attend: Attend, head: Linear) -> Tensor:
        """Return ``head`` of the normed state of each row's last position, ``[rows, outputs]``.

        The arguments are those of a call, and a head without a bias.
        """
        assert self.is_normed_last, "a head takes normed states"
        if not self._is_fused(states):
            return head(self(states, rotation, attend)[:, -1])
        from antiphon.nn.kernels import fused_linear

        last = self._run_fused(states, rotation, attend).last(_num_positions(states))
        product = fused_linear.FusedLinear(self.is_batch_invariant)
        return product.normed(last, head.weight, self.norm.epsilon)

    def _run_fused(self, states: States, rotation: Rotation, attend: Attend) -> "PreNormState":
        """Return the states after all layers, scaled by the final norm; one row per position."""
        from antiphon.nn.kernels import fused_linear

        product = fused_linear.FusedLinear(self.is_batch_invariant)
        num_positions = _num_positions(states)
        if isinstance(states, Tensor):
            states = fused_linear.scale(states.flatten(0, 1), self.first_norm)
        norms = (*(layer.attention_norm for layer in self.layers[1:]), self.norm)
        for index, (layer, next_norm) in enumerate(zip(self.layers, norms, strict=True)):
            middle, inner = layer.feed_forward_norm, layer.feed_forward
            joined = product.normed(states, layer.query_key_value, layer.attention_norm.epsilon)
            joined = joined.view(-1, num_positions, joined.shape[1])
            attended = attend(index, joined, layer.heads, rotation).flatten(0, 1)
            states = product.added(states.states, attended, layer.output, middle.weight)
            gated = product.normed(states, inner.gate_up, middle.epsilon, is_gated=True)
            states = product.added(states.states, gated, inner.down, next_norm.weight)
        return states

    def _is_fused(self, states: States) -> bool:
        if not self.norm.backend.has_kernels:
            return False
        some = states if isinstance(states, Tensor) else states.states
        from antiphon.nn.kernels import fused_linear

        is_small = some.shape[:-1].numel() <= fused_linear.MAX_ROWS or self.is_batch_invariant
        return is_small and not self.has_biases and not self.has_output_norms


def _num_positions(states: States) -> int:
    return states.shape[1] if isinstance(states, Tensor) else states.num_positions
