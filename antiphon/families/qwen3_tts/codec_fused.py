"""Fused GPU form of the codec decoder: half precision, few kernels, state read in place."""

import torch

from antiphon.families.qwen3_tts.codec import CodecDecoder
from antiphon.nn.codec_layers.fused import (
    FusedAttentionLayer,
    FusedConvNeXtBlock,
    KernelLayout,
    fused_blocks,
)
from antiphon.nn.codec_layers.fused_decoder import FusedDecoder


def fused(decoder: CodecDecoder, dtype: torch.dtype = torch.float16) -> FusedDecoder:
    """Lay out a float32 decoder's weights on its GPU, without keeping the original."""
    layout = KernelLayout(dtype)
    transformer = decoder.transformer
    assert transformer.input
    assert transformer.norm
    assert transformer.output
    snakes = [block.snake for block in decoder.blocks]
    return FusedDecoder(
        tables=layout.tables(decoder.tables),
        radians=transformer.frequencies.halves,
        is_rotation_rounded=False,
        entry=(layout.conv(decoder.pre_conv), layout.linear(transformer.input)),
        layers=tuple(FusedAttentionLayer.of(layer, layout) for layer in transformer.layers),
        output=layout.linear(transformer.output, transformer.norm.weight),
        norm_epsilon=transformer.norm.epsilon,
        doublings=tuple(
            FusedConvNeXtBlock.of(upsample, refine, layout)
            for upsample, refine in decoder.upsamplings
        ),
        widen=layout.conv(decoder.widen),
        first_snake=snakes[0],
        blocks=fused_blocks(decoder.blocks, (*snakes[1:], decoder.last_snake), layout),
        num_exact=len(decoder.blocks),
        last_conv=layout.exact_conv(decoder.last_conv),
        bound="clamp",
        max_frames=decoder.max_pass_frames,
        row_size=layout.row_size,
    )
