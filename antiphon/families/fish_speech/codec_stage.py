"""Loader of a checkpoint's codec for the pipeline's decoder stage."""

import torch

from antiphon.codec.grouped_decoder import GroupedDecoder
from antiphon.codec.lockstep_decoder import LockstepDecoder
from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.families.fish_speech.codec import DECODER_PARTS, load_decoder
from antiphon.families.fish_speech.codec_weights import part_of, read_codec
from antiphon.families.fish_speech.config import SAMPLE_RATE_HZ, SAMPLES_PER_FRAME, load_config
from antiphon.families.kit.loading import like_of
from antiphon.nn import kernels
from antiphon.nn.codec_layers.windowed import FrameByFrame


def load_codec(context: LoadContext) -> StreamingDecoder:
    """Load the decoder from codes to 44.1 kHz audio.

    Computation is in float32. On a GPU products are of split halves, and of single halves in narrow
    blocks; but if ``context.dtype`` is float32, layers are PyTorch's, one frame per stream at once.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_config(context.checkpoint)
    sizes, tensors = read_codec(context.checkpoint, config)
    like = like_of(context, "float32")
    progress = context.progress_of("codec graphs")
    with torch.inference_mode():
        decoder = load_decoder(part_of(tensors, *DECODER_PARTS, like=like), sizes)
    if like.device.type == "cpu":
        return GroupedDecoder(
            decoder, sample_rate_hz=SAMPLE_RATE_HZ, samples_per_frame=SAMPLES_PER_FRAME
        )
    if not kernels.run_on(like) or context.dtype == "float32":
        return LockstepDecoder(
            FrameByFrame(decoder),
            frame_size=config.num_codebooks,
            sample_rate_hz=SAMPLE_RATE_HZ,
            samples_per_frame=SAMPLES_PER_FRAME,
            progress=progress,
        )
    from antiphon.codec.graph_decoder import GraphDecoder
    from antiphon.families.fish_speech.codec_fused import fused

    with torch.inference_mode():
        on_gpu = fused(decoder)
    return GraphDecoder(
        on_gpu,
        num_quantizers=config.num_codebooks,
        sample_rate_hz=SAMPLE_RATE_HZ,
        samples_per_frame=SAMPLES_PER_FRAME,
        progress=progress,
    )
