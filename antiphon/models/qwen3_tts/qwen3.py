"""Builds the Qwen3 transformer that talker and predictor share from a checkpoint's tensors."""

from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import RMSNorm, Rope, Weights
from antiphon.nn.qkv import Heads
from antiphon.nn.transformer import DecoderLayer, Transformer


def build_transformer(
    weights: Weights,
    name: str,
    config: TransformerConfig,
    max_positions: int,
    *,
    is_batch_invariant: bool,
) -> Transformer:
    """Take the layers and the final norm below ``name``.

    Args:
        weights: all of one type and on one device.
        name: for example ``talker.model``.
        config: of this transformer.
        max_positions: longest run that will be asked for.
        is_batch_invariant: see `Transformer`.
    """
    heads = Heads(config.num_heads, config.num_kv_heads, config.head_dim)
    norm = RMSNorm(weights[f"{name}.norm.weight"], config.norm_eps)
    return Transformer(
        layers=tuple(
            DecoderLayer.of(weights, f"{name}.layers.{index}", heads, config.norm_eps)
            for index in range(config.num_layers)
        ),
        norm=norm,
        rope=Rope.build(config.head_dim, config.rope_theta, max_positions, like=norm.weight),
        is_batch_invariant=is_batch_invariant,
    )
