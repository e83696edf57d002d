"""The codec of a checkpoint, loaded for the pipeline's decoder stage."""

import torch

from antiphon.codec.grouped_decoder import GroupedDecoder
from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.families.kit.loading import like_of
from antiphon.families.qwen3_tts.codec import CodecDecoder
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.weights import codec_decoder_weights
from antiphon.nn import kernels


def load_codec(context: LoadContext) -> StreamingDecoder:
    """Load the decoder of codes to 24 kHz audio.

    It computes in float16 on a GPU, whose ten bits of mantissa equal those of TF32 (bfloat16 has
    seven, with audible errors), and in float32 elsewhere; ``context.dtype`` applies to the talker.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_config(context.checkpoint)
    rate_hz, num_samples = config.codec.sample_rate_hz, config.codec.samples_per_frame
    like = like_of(context, "float32")
    opened = codec_decoder_weights(
        context.checkpoint,
        config,
        like=like,
        progress=context.progress_of("codec"),
        is_dummy=context.is_dummy,
    )
    with torch.inference_mode(), opened as weights:
        decoder = CodecDecoder.of(weights, config.codec.decoder)
        if not kernels.run_on(like):
            return GroupedDecoder(decoder, sample_rate_hz=rate_hz, samples_per_frame=num_samples)
        from antiphon.codec.graph_decoder import GraphDecoder
        from antiphon.families.qwen3_tts.codec_fused import fused

        on_gpu = fused(decoder)
    return GraphDecoder(
        on_gpu,
        num_quantizers=config.codec.num_quantizers,
        sample_rate_hz=rate_hz,
        samples_per_frame=num_samples,
        progress=context.progress_of("codec graphs"),
    )
