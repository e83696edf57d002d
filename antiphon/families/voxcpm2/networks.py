"""Transformers of a checkpoint, including those over a single patch."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.voxcpm2.config import VoxCPM2Config
from antiphon.nn.attention_backends import whole_attention
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import Linear, Weights
from antiphon.nn.transformer import DecoderLayer, Transformer

_MIN_OUTPUTS = 16
"""Minimum outputs of a product with matrix instructions."""


@dataclass(frozen=True, slots=True)
class NetworkBuilder:
    """Builder of networks from a checkpoint's tensors.

    Attributes:
        is_batch_invariant: whether rows must not depend on the batch, see
            `antiphon.nn.layers.Linear`.
    """

    weights: Weights
    is_batch_invariant: bool = False

    def linear(self, name: str) -> Linear:
        linear = Linear.of(self.weights, name)
        # Some products of tiny models are too narrow for matrix instructions.
        is_wide = len(linear.weight) % _MIN_OUTPUTS == 0
        return replace(linear, is_batch_invariant=self.is_batch_invariant and is_wide)

    def transformer(
        self, name: str, sizes: TransformerConfig, branch_scale: float, max_positions: int
    ) -> Transformer:
        """Load a transformer whose residual branches are scaled.

        The scale is folded into the last product of each branch.
        """
        built = Transformer.of(
            self.weights,
            name,
            sizes,
            max_positions,
            is_batch_invariant=self.is_batch_invariant,
        )
        if branch_scale == 1.0:
            return built
        return replace(built, layers=tuple(_scaled(each, branch_scale) for each in built.layers))


def _scaled(layer: DecoderLayer, scale: float) -> DecoderLayer:
    output, down = layer.output, layer.feed_forward.down
    feed_forward = replace(layer.feed_forward, down=replace(down, weight=down.weight * scale))
    return replace(
        layer, output=replace(output, weight=output.weight * scale), feed_forward=feed_forward
    )


@dataclass(frozen=True, slots=True)
class LocalTransformer:
    """A transformer with full attention over a few positions."""

    transformer: Transformer
    num_positions: int

    def __call__(self, states: Tensor, wanted: slice) -> Tensor:
        """Map ``[rows, num_positions, hidden_size]`` to normed states of ``wanted`` positions."""
        rotation = self.transformer.rope.between(0, self.num_positions)
        return self.transformer(states, rotation, whole_attention, wanted)


@dataclass(frozen=True, slots=True)
class PatchEncoder:
    """Encodes a patch as one vector.

    Attributes:
        token: input before the latents, whose output is used, ``[1, 1, hidden_size]``.
    """

    token: Tensor
    input: Linear
    transformer: LocalTransformer

    @classmethod
    def of(cls, builder: NetworkBuilder, config: VoxCPM2Config) -> "PatchEncoder":
        num_positions = 1 + config.patch_size
        name, scale = "feat_encoder", config.branch_scales[2]
        layers = builder.transformer(f"{name}.encoder", config.encoder, scale, num_positions)
        return cls(
            token=builder.weights[f"{name}.special_token"].flatten(0, 1),
            input=builder.linear(f"{name}.in_proj"),
            transformer=LocalTransformer(layers, num_positions),
        )

    def __call__(self, patches: Tensor) -> Tensor:
        """Map ``[n, patch_size, feature_size]`` to ``[n, hidden_size]``."""
        states = self.input(patches.to(self.token.dtype))
        token = self.token.expand(len(states), -1, -1)
        return self.transformer(torch.cat((token, states), dim=1), slice(1))[:, 0]


@dataclass(frozen=True, slots=True)
class Quantizer:
    """Finite scalar quantizer of states in a bottleneck."""

    narrow: Linear
    wide: Linear
    scale: int

    @classmethod
    def of(cls, builder: NetworkBuilder, config: VoxCPM2Config) -> "Quantizer":
        narrow, wide = (builder.linear(f"fsq_layer.{part}_proj") for part in ("in", "out"))
        return cls(narrow, wide, config.quantizer_scale)

    def __call__(self, states: Tensor) -> Tensor:
        return self.wide((self.narrow(states).tanh() * self.scale).round() / self.scale)


@dataclass(frozen=True, slots=True)
class StopHead:
    """Predicts from the state of a frame whether it is the last one.

    Attributes:
        head: two logits that are compared, followed by padding.
    """

    hidden: Linear
    head: Linear

    @classmethod
    def of(cls, builder: NetworkBuilder) -> "StopHead":
        head = builder.weights["stop_head.weight"]
        padded = F.pad(head, (0, 0, 0, _MIN_OUTPUTS - len(head)))
        hidden = builder.linear("stop_proj")
        return cls(hidden, Linear(padded, is_batch_invariant=builder.is_batch_invariant))

    def __call__(self, states: Tensor) -> Tensor:
        """Return bool ``[rows]``; false on a tie."""
        logits = self.head(F.silu(self.hidden(states)))
        return logits[:, 1] > logits[:, 0]
