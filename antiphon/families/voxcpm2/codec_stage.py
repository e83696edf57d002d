"""Loader of the AudioVAE's decoder for the pipeline's decoder stage."""

import torch

from antiphon.codec.lockstep_decoder import LockstepDecoder
from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.families.kit.loading import like_of
from antiphon.families.voxcpm2.audio_vae import VAEDecoder
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.weights import vae_weights
from antiphon.nn import kernels


def load_codec(context: LoadContext) -> StreamingDecoder:
    """Load the decoder from frames to 48 kHz audio.

    Computation is in float32, as in the official program. On a GPU it is in float16 with float32
    accumulation, unless ``context.dtype`` is float32 or wide convolutions are not depthwise.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    config = load_config(context.checkpoint)
    like = like_of(context, "float32")
    with torch.inference_mode():
        weights = vae_weights(
            context.checkpoint,
            config.vae,
            "decoder.",
            like=like,
            progress=context.progress_of("audio vae"),
            is_dummy=context.is_dummy,
        )
        network = VAEDecoder.of(weights, config)
    graphs = context.progress_of("audio vae graphs")
    if not kernels.run_on(like) or not config.vae.depthwise or context.dtype == "float32":
        return LockstepDecoder(
            network,
            frame_size=config.frame_size,
            sample_rate_hz=config.vae.out_sample_rate,
            samples_per_frame=config.samples_per_frame,
            progress=graphs,
        )
    from antiphon.codec.graph_decoder import GraphDecoder
    from antiphon.families.voxcpm2.audio_vae_fused import FusedVAEDecoder

    with torch.inference_mode():
        fused = FusedVAEDecoder.of(network)
    return GraphDecoder(
        fused,
        num_quantizers=config.frame_size,
        sample_rate_hz=config.vae.out_sample_rate,
        samples_per_frame=config.samples_per_frame,
        progress=graphs,
    )
