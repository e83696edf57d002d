"""Codec decoder: frames to samples, each frame decoded once, for any grouping of frames."""

from math import prod
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from antiphon.codec.host.grouped_decoder import GroupedDecoder
from antiphon.codec.host.threaded_decoder import ThreadedDecoder
from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.families.kit.loading import weights_for
from antiphon.families.qwen3_tts.checkpoint import codec_decoder_part
from antiphon.families.qwen3_tts.config import CodecDecoderConfig
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.nn import kernels
from antiphon.nn.codec_layers.conv import (
    CausalConv,
    CausalTransposedConv,
    ConvNeXtBlock,
    LayerBuilder,
    UpsamplingBlock,
)
from antiphon.nn.codec_layers.quantizer import CodeTables, codebook
from antiphon.nn.codec_layers.state import StateLayout
from antiphon.nn.codec_layers.transformer import CodecTransformer
from antiphon.nn.codec_layers.windowed_decoder import CodecNetwork, WindowedDecoder
from antiphon.nn.layers import Snake, Weights
from antiphon.nn.weights import open_weights

_MIN_PASS_FRAMES = 25
_NUM_SEMANTIC = 1
_DILATIONS = (1, 3, 9)
_NUM_KEYS_MULTIPLE = 8  # mask width preferred by attention kernels

if TYPE_CHECKING:  # needs Triton
    from antiphon.nn.codec_layers.fused_decoder import FusedDecoder


def decoder_of(
    weights: Weights, config: CodecDecoderConfig, dtype: torch.dtype = torch.float32
) -> WindowedDecoder:
    """Build the decoder from the codec's tensors.

    Args:
        weights: float32 tensors on one device, by their names in the checkpoint.
        dtype: type of weights, activations and states; activation functions keep float32 factors.
    """
    window = config.transformer.window
    assert window is not None
    num_keys = window - 1 + _MIN_PASS_FRAMES
    num_keys += -num_keys % _NUM_KEYS_MULTIPLE
    layout = StateLayout()
    builder = LayerBuilder(weights, layout, dtype)
    last = len(config.upsample_rates) + 1
    network = CodecNetwork(
        tables=CodeTables.of(_code_tables(weights, config.num_quantizers), dtype),
        pre_conv=CausalConv.of(builder, "decoder.pre_conv"),
        transformer=CodecTransformer.of(
            builder, "decoder.pre_transformer", config.transformer, num_keys
        ),
        upsamplings=tuple(
            (
                CausalTransposedConv.of(builder, f"decoder.upsample.{index}.0", ratio),
                ConvNeXtBlock.of(builder, f"decoder.upsample.{index}.1"),
            )
            for index, ratio in enumerate(config.upsampling_ratios)
        ),
        widen=CausalConv.of(builder, "decoder.decoder.0"),
        blocks=tuple(
            UpsamplingBlock.of(builder, f"decoder.decoder.{index}", rate, _DILATIONS)
            for index, rate in enumerate(config.upsample_rates, 1)
        ),
        last_snake=Snake.of(weights, f"decoder.decoder.{last}"),
        last_conv=CausalConv.of(builder, f"decoder.decoder.{last + 1}"),
        bound="clamp",
    )
    return WindowedDecoder(network, window, num_keys, layout.row_size)


def _code_tables(weights: Weights, num_quantizers: int) -> list[Tensor]:
    tables = []
    for kind, number in (("first", _NUM_SEMANTIC), ("rest", num_quantizers - _NUM_SEMANTIC)):
        name = f"decoder.quantizer.rvq_{kind}"
        projection = weights[f"{name}.output_proj.weight"].squeeze(2)
        names = (f"{name}.vq.layers.{index}._codebook" for index in range(number))
        tables += [codebook(weights, each, "embedding_sum") @ projection.T for each in names]
    return tables


def load_codec(context: LoadContext) -> StreamingDecoder:
    """Load the decoder of codes to 24 kHz audio; raises ModelLoadError.

    It computes in float16 on a GPU, whose ten bits of mantissa equal those of TF32 (bfloat16 has
    seven, with audible errors), and in float32 elsewhere; ``context.dtype`` applies to the talker.
    """
    config = load_config(context.checkpoint)
    rate_hz, num_samples = config.codec.sample_rate_hz, config.codec.samples_per_frame
    opened = codec_decoder_part(context.checkpoint, config)
    how = weights_for(context, "codec", "float32")
    with torch.inference_mode(), open_weights(opened, **how) as weights:
        decoder = decoder_of(weights, config.codec.decoder)
        if not kernels.run_on(how["like"]):
            host = GroupedDecoder(decoder, sample_rate_hz=rate_hz, samples_per_frame=num_samples)
            return ThreadedDecoder(host)
        from antiphon.codec.graph_decoder import GraphDecoder

        on_gpu = fused(decoder)
    return GraphDecoder(
        on_gpu,
        num_quantizers=config.codec.num_quantizers,
        sample_rate_hz=rate_hz,
        samples_per_frame=num_samples,
        progress=context.progress_of("codec graphs"),
    )


def fused(decoder: WindowedDecoder, dtype: torch.dtype = torch.float16) -> "FusedDecoder":
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
    from antiphon.nn.cuda.codec_conv import with_programs

    layout, network = KernelLayout(dtype), decoder.network
    transformer = network.transformer
    assert network.pre_conv
    assert transformer.input
    assert transformer.norm
    assert transformer.output
    snakes = [block.snake for block in network.blocks]
    return FusedDecoder(
        tables=layout.tables(network.tables),
        radians=transformer.frequencies.halves,
        is_rotation_rounded=False,
        entry=(layout.conv(network.pre_conv), layout.linear(transformer.input)),
        layers=tuple(FusedAttentionLayer.of(layer, layout) for layer in transformer.layers),
        output=layout.linear(transformer.output, transformer.norm.weight),
        norm_epsilon=transformer.norm.epsilon,
        doublings=tuple(
            FusedConvNeXtBlock.of(upsample, refine, layout)
            for upsample, refine in network.upsamplings
        ),
        widen=layout.conv(network.widen),
        first_snake=snakes[0],
        blocks=with_programs(
            fused_blocks(network.blocks, (*snakes[1:], network.last_snake), layout),
            columns=prod(upsample.stride for upsample, _ in network.upsamplings),
        ),
        num_exact=len(network.blocks),
        last_conv=layout.exact_conv(network.last_conv),
        bound=network.bound,
        max_frames=decoder.max_pass_frames,
        row_size=layout.row_size,
    )
