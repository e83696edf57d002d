"""The AudioVAE's decoder, loaded for the pipeline's decoder stage."""

import torch

from antiphon.codec.lockstep_decoder import LockstepDecoder
from antiphon.models.spec import LoadContext
from antiphon.models.voxcpm2.audio_vae import VAEDecoder
from antiphon.models.voxcpm2.config import load_config
from antiphon.models.voxcpm2.weights import vae_weights
from antiphon.nn.device import resolve_device


def load_codec(context: LoadContext) -> LockstepDecoder:
    """Load what turns frames into 48 kHz audio, in float32 as in the official program.

    Raises:
        ModelLoadError: the checkpoint cannot be served.
    """
    assert context.path is not None, "the family needs a checkpoint"
    config = load_config(context.path)
    device = resolve_device(context.device, context.memory_fraction)
    like = torch.empty(0, dtype=torch.float32, device=device)
    progress = context.progress_of("audio vae")
    with torch.inference_mode():
        weights = vae_weights(context.path, config.vae, "decoder.", like=like, progress=progress)
        network = VAEDecoder.of(weights, config)
    return LockstepDecoder(
        network,
        frame_size=config.frame_size,
        sample_rate_hz=config.vae.out_sample_rate,
        samples_per_frame=config.samples_per_frame,
        progress=context.progress_of("audio vae graphs"),
    )
