"""The codec's decoder: frames of ten codes to 44.1 kHz, each frame decoded once.

It is a causal DAC, preceded by a transformer over frames with a window of 128. Each stream keeps
the state that later frames need.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.families.fish_speech.codec_layers import snake_of, transformer_of, unit_of
from antiphon.families.fish_speech.codec_schema import DILATIONS, FRAME_WINDOW, CodecSizes
from antiphon.families.fish_speech.windowed import WindowedDecoder
from antiphon.nn.codec_layers.conv import (
    CausalConv,
    CausalTransposedConv,
    ConvNeXtBlock,
    LayerBuilder,
    UpsamplingBlock,
)
from antiphon.nn.codec_layers.quantizer import CodeTables
from antiphon.nn.codec_layers.state import History, StateLayout
from antiphon.nn.codec_layers.transformer import CodecTransformer
from antiphon.nn.layers import Snake, Weights

DECODER_PARTS: tuple[str, ...] = (
    *("quantizer.quantizer.", "quantizer.semantic_quantizer."),
    *("quantizer.post_module.", "quantizer.upsample.", "decoder."),
)
"""Name prefixes of the decoder's tensors."""
_PASS_FRAMES = 25
"""Frames per pass; rings of keys then have a multiple of eight, which attention kernels require."""


@dataclass(frozen=True, slots=True)
class DacNetwork:
    """An `antiphon.families.fish_speech.windowed.Network`."""

    tables: CodeTables
    transformer: CodecTransformer
    upsamplings: tuple[tuple[CausalTransposedConv, ConvNeXtBlock], ...]
    widen: CausalConv
    blocks: tuple[UpsamplingBlock, ...]
    last_snake: Snake
    last_conv: CausalConv

    def __call__(self, codes: Tensor, history: History) -> Tensor:
        hidden = self.transformer(self.tables(codes), history)
        for upsample, refine in self.upsamplings:
            hidden = refine(upsample(hidden, history), history)
        hidden = self.widen(hidden, history)
        for block in self.blocks:
            hidden = block(hidden, history)
        hidden = self.last_conv(self.last_snake(hidden), history)
        return hidden.squeeze(2).float().tanh()


def load_decoder(
    weights: Weights, sizes: CodecSizes, dtype: torch.dtype = torch.float32
) -> WindowedDecoder:
    """Build the decoder from the codec's tensors.

    Args:
        weights: tensors of `DECODER_PARTS`, in float32 and on one device.
        sizes: sizes of the codec.
        dtype: type of weights, activations and states.
    """
    layout = StateLayout()
    builder = LayerBuilder(weights, layout, dtype)
    num_keys = FRAME_WINDOW - 1 + _PASS_FRAMES
    last = len(sizes.rates) + 1
    factors = sizes.factors[::-1]
    tables = CodeTables.of(_code_tables(weights, sizes), dtype)
    network = DacNetwork(
        tables=tables,
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
            _upsampling(builder, f"decoder.model.{index}.block", rate)
            for index, rate in enumerate(sizes.rates, 1)
        ),
        last_snake=snake_of(builder, f"decoder.model.{last}"),
        last_conv=CausalConv.of(builder, f"decoder.model.{last + 1}"),
    )
    return WindowedDecoder(network, FRAME_WINDOW, num_keys, layout.row_size, tables.rows)


def _upsampling(builder: LayerBuilder, name: str, rate: int) -> UpsamplingBlock:
    return UpsamplingBlock(
        snake_of(builder, f"{name}.0"),
        CausalTransposedConv.of(builder, f"{name}.1", rate),
        tuple(
            unit_of(builder, f"{name}.{index}", dilation)
            for index, dilation in enumerate(DILATIONS, 2)
        ),
    )


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
