"""Encoder stage: patches of latents of reference audio."""

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.families.kit.cloned_voices import RecordingLimits
from antiphon.families.kit.loading import like_of
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.voxcpm2.audio_vae import VAEEncoder
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.latents import CONTINUED, REFERENCE
from antiphon.families.voxcpm2.weights import vae_weights
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass

_MAX_RECORDING_S = 60


def load_voice_encoder(context: LoadContext, *, pads: bool | None = None) -> ClonedVoiceEncoder:
    """Load the encoder of the AudioVAE.

    Patches are float32 ``[num_patches, patch_size * feature_size]``. Silence pads the last patch,
    or the first one if speech continues the recording.

    Args:
        context: checkpoint, device and settings of the stage.
        pads: whether recordings are encoded in padded batches; ``None``: only on a GPU.

    Raises:
        ModelLoadError: the AudioVAE cannot be loaded.
    """
    config = load_config(context.checkpoint)
    vae, frame, size = config.vae, config.encoded_samples_per_frame, config.frame_size - 1
    like = like_of(context, "float32")
    weights = vae_weights(context.checkpoint, vae, "encoder.", like=like, is_dummy=context.is_dummy)
    encoder = VAEEncoder.of(weights, vae)

    def encode(samples: Tensor, _: Tensor | None = None) -> Tensor:
        return encoder.encode_rows(samples).reshape(len(samples), -1, size)

    def shift(samples: Tensor, lengths: Tensor) -> Tensor:
        """Move the silence that pads a row's last patch to its beginning."""
        places = torch.arange(samples.shape[1], device=like.device) - (-lengths % frame)[:, None]
        return torch.where(places < 0, 0.0, samples.gather(1, places.clamp(min=0)))

    def num_frames(num_samples: int) -> int:
        return -(-num_samples // frame)

    passes = {
        REFERENCE: PaddedPass(
            encode,
            lambda samples: encode(F.pad(samples, (0, -len(samples) % frame))[None])[0],
            num_frames=num_frames,
        ),
        CONTINUED: PaddedPass(
            encode,
            lambda samples: encode(F.pad(samples, (-len(samples) % frame, 0))[None])[0],
            shift,
            num_frames,
        ),
    }
    batches = PaddedBatches(
        passes,
        like.device,
        sample_rate_hz=vae.sample_rate,
        samples_per_frame=frame,
        captures=False,
        pads=pads,
    )
    # A recording must have one sample at the encoder's rate, which is the lower one.
    limits = RecordingLimits(vae.out_sample_rate, _MAX_RECORDING_S, 1 / vae.sample_rate)
    return ClonedVoiceEncoder(batches, limits, [REFERENCE, CONTINUED], vae.sample_rate)
