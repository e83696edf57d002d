"""Decoder stage: the codec of a checkpoint, on a GPU fused into few kernels."""

from typing import TYPE_CHECKING

import torch

from antiphon.codec.grouped_decoder import GroupedDecoder
from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.families.kit.loading import weights_for
from antiphon.families.qwen3_tts.checkpoint import codec_decoder_part
from antiphon.families.qwen3_tts.codec import CodecDecoder
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.nn import kernels

if TYPE_CHECKING:  # needs Triton
    from antiphon.nn.codec_layers.fused_decoder import FusedDecoder


def load_codec(context: LoadContext) -> StreamingDecoder:
    """Load the decoder of codes to 24 kHz audio.

    It computes in float16 on a GPU, whose ten bits of mantissa equal those of TF32 (bfloat16 has
    seven, with audible errors), and in float32 elsewhere; ``context.dtype`` applies to the talker.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_config(context.checkpoint)
    rate_hz, num_samples = config.codec.sample_rate_hz, config.codec.samples_per_frame
    opened = codec_decoder_part(context.checkpoint, config)
    how = weights_for(context, "codec", "float32")
    with torch.inference_mode(), opened.open(**how) as weights:
        decoder = CodecDecoder.of(weights, config.codec.decoder)
        if not kernels.run_on(how["like"]):
            return GroupedDecoder(decoder, sample_rate_hz=rate_hz, samples_per_frame=num_samples)
        from antiphon.codec.graph_decoder import GraphDecoder

        on_gpu = fused(decoder)
    return GraphDecoder(
        on_gpu,
        num_quantizers=config.codec.num_quantizers,
        sample_rate_hz=rate_hz,
        samples_per_frame=num_samples,
        progress=context.progress_of("codec graphs"),
    )


def fused(decoder: CodecDecoder, dtype: torch.dtype = torch.float16) -> "FusedDecoder":
    """Lay out a float32 decoder's weights on its GPU, without keeping the original.

    Few kernels compute in half precision and read state in place.
    """
    from antiphon.nn.codec_layers.fused import (
        FusedAttentionLayer,
        FusedConvNeXtBlock,
        KernelLayout,
        fused_blocks,
    )
    from antiphon.nn.codec_layers.fused_decoder import FusedDecoder

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
