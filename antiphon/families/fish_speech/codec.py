"""The codec's decoder: frames of ten codes to 44.1 kHz, each frame decoded once.

It is a causal DAC, preceded by a transformer over frames with a window of 128. Each stream keeps
the state that later frames need.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.fish_speech.codec_schema import FRAME_WINDOW, CodecSizes
from antiphon.families.fish_speech.dual_ar import paired_order
from antiphon.families.kit.dac.layers import snake_of, upsampling_of
from antiphon.nn.attention import HeadShape
from antiphon.nn.codec_layers.conv import (
    CausalConv,
    CausalTransposedConv,
    ConvNeXtBlock,
    LayerBuilder,
)
from antiphon.nn.codec_layers.quantizer import CodeTables
from antiphon.nn.codec_layers.state import StateLayout
from antiphon.nn.codec_layers.transformer import (
    CodecTransformer,
    CodecTransformerLayer,
    Frequencies,
    WindowAttention,
    norm_of,
)
from antiphon.nn.codec_layers.windowed_decoder import CodecNetwork, WindowedDecoder
from antiphon.nn.layer_configs import TransformerConfig
from antiphon.nn.layers import Linear, Rotation, SwiGLU, Weights

_PASS_FRAMES = 25
"""Frames per pass; rings of keys then have a multiple of eight, which attention kernels require."""


@dataclass(frozen=True, slots=True)
class RoundedFrequencies(Frequencies):
    """Rotary embedding in bfloat16, as in training."""

    def at(self, positions: Tensor, dtype: torch.dtype) -> Rotation:
        angles = positions[..., None, None].float() * self.radians
        return Rotation(*(each.bfloat16().to(dtype) for each in (angles.cos(), angles.sin())))


def transformer_of(
    builder: LayerBuilder, name: str, config: TransformerConfig, num_keys: int = 0
) -> CodecTransformer:
    """Load ``name``; for streaming, layers get rings of ``num_keys`` keys and values."""
    layers = tuple(
        _layer_of(builder, f"{name}.layers.{index}", config, num_keys)
        for index in range(config.num_layers)
    )
    norm = norm_of(builder, f"{name}.norm", config)
    radians = Frequencies.of(config.head_dim, config.rope_theta, norm.weight.device).radians
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


def load_decoder(
    weights: Weights, sizes: CodecSizes, dtype: torch.dtype = torch.float32
) -> WindowedDecoder:
    """Build the decoder from the codec's tensors, in float32 and on one device.

    ``dtype`` is the type of weights, activations and states.
    """
    layout = StateLayout()
    builder = LayerBuilder(weights, layout, dtype)
    num_keys = FRAME_WINDOW - 1 + _PASS_FRAMES
    last = len(sizes.rates) + 1
    factors = sizes.factors[::-1]
    network = CodecNetwork(
        tables=CodeTables.of(_code_tables(weights, sizes), dtype),
        pre_conv=None,
        transformer=transformer_of(builder, "quantizer.post_module", sizes.frames, num_keys),
        upsamplings=tuple(
            (
                CausalTransposedConv.of(builder, f"quantizer.upsample.{index}.0", factor),
                ConvNeXtBlock.of(builder, f"quantizer.upsample.{index}.1"),
            )
            for index, factor in enumerate(factors)
        ),
        widen=CausalConv.of(builder, "decoder.model.0"),
        blocks=tuple(
            upsampling_of(builder, f"decoder.model.{index}.block", rate)
            for index, rate in enumerate(sizes.rates, 1)
        ),
        last_snake=snake_of(weights, f"decoder.model.{last}"),
        last_conv=CausalConv.of(builder, f"decoder.model.{last + 1}"),
        bound="tanh",
    )
    return WindowedDecoder(network, FRAME_WINDOW, num_keys, layout.row_size)


def codebook_names(sizes: CodecSizes) -> tuple[str, ...]:
    """Return the names of the quantizers, the semantic one first."""
    residual = (f"quantizer.quantizer.quantizers.{index}" for index in range(sizes.num_residual))
    return ("quantizer.semantic_quantizer.quantizers.0", *residual)


def _code_tables(weights: Mapping[str, Tensor], sizes: CodecSizes) -> list[Tensor]:
    """Return all codebooks after their projections, padded with their last rows.

    Codes beyond a codebook thus stand for its last code, as in the official code.
    """
    tables = []
    for name in codebook_names(sizes):
        projection = weights[f"{name}.out_proj.weight"].squeeze(2)
        table = F.linear(
            weights[f"{name}.codebook.weight"], projection, weights[f"{name}.out_proj.bias"]
        )
        num_missing = max(sizes.semantic_codes, sizes.residual_codes) - len(table)
        tables.append(torch.cat((table, table[-1:].expand(num_missing, -1))))
    return tables
