"""Stages of the AudioVAE: weights of its encoder or decoder, and their loaders.

Every tensor of a part must be used. The AudioVAE is published as a PyTorch file.
"""

from pathlib import Path
from typing import Unpack

import torch
import torch.nn.functional as F  # noqa: N812 (its customary name)
from torch import Tensor

from antiphon.codec.lockstep_decoder import LockstepDecoder
from antiphon.codec.protocol import StreamingDecoder
from antiphon.contracts.family import LoadContext
from antiphon.errors import ModelLoadError
from antiphon.families.kit.cloned_voices import RecordingLimits
from antiphon.families.kit.formats.torch_file import joined_weights, read_torch_file, state_dict_of
from antiphon.families.kit.loading import like_of
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.voxcpm2.audio_vae import VAEDecoder, VAEEncoder
from antiphon.families.voxcpm2.checkpoint import PTH, VAE_OTHERS, has_pth, vae_layout, vae_part
from antiphon.families.voxcpm2.config import AudioVAEConfig, load_config
from antiphon.families.voxcpm2.request import CONTINUED, REFERENCE
from antiphon.nn import kernels
from antiphon.nn.layers import Weights
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass
from antiphon.nn.safetensors_index import layout_problems, without
from antiphon.nn.weights import WeightOptions, open_weights

_NORMED = ".weight_v"
_MAX_RECORDING_S = 60


def vae_weights(
    path: Path, config: AudioVAEConfig, part: str, **how: Unpack[WeightOptions]
) -> Weights:
    """Return the AudioVAE's encoder or decoder, weight norms merged; raises ModelLoadError.

    ``part`` is "encoder." or "decoder.". A convolution ``name`` is at ``name.conv.weight`` and
    ``name.conv.bias``.
    """
    if not has_pth(path) or how.get("is_dummy"):
        with open_weights(vae_part(path, config, part), **how) as weights:
            return _multiplied(weights)
    file = path / PTH
    error = ModelLoadError(f"{file}: must hold tensors by name")
    stored = without(VAE_OTHERS, state_dict_of(read_torch_file(file), error))
    shapes = {name: tuple(each.shape) for name, each in stored.items()}
    if problems := layout_problems(shapes, vae_layout(config)):
        raise ModelLoadError(f"{file}: tensors {'; '.join(problems)}")
    own = (name for name in stored if name.startswith(part))
    return _multiplied({name: stored[name].to(how["like"]) for name in own})


def _multiplied(weights: Weights) -> Weights:
    """Merge direction and norm of convolution weights, and rename them as layers expect."""
    convolutions = {name.removesuffix(_NORMED) for name in weights if name.endswith(_NORMED)}
    result: dict[str, Tensor] = {}
    for name, tensor in joined_weights(weights).items():
        stem, _, kind = name.rpartition(".")
        result[f"{stem}.conv.{kind}" if stem in convolutions else name] = tensor
    return result


def load_codec(context: LoadContext) -> StreamingDecoder:
    """Load the decoder from frames to 48 kHz audio; raises ModelLoadError.

    Computation is in float32, as in the official program. On a GPU it is in float16 with float32
    accumulation, unless ``context.dtype`` is float32.
    """
    config, like = load_config(context.checkpoint), like_of(context, "float32")
    how = WeightOptions(
        like=like, progress=context.progress_of("audio vae"), is_dummy=context.is_dummy
    )
    with torch.inference_mode():
        weights = vae_weights(context.checkpoint, config.vae, "decoder.", **how)
        network = VAEDecoder.of(weights, config)
    rate_hz, num_samples = config.vae.out_sample_rate, config.samples_per_frame
    rates = {"sample_rate_hz": rate_hz, "samples_per_frame": num_samples}
    frame_size, graphs = config.frame_size, context.progress_of("audio vae graphs")
    if not kernels.run_on(like) or context.dtype == "float32":
        return LockstepDecoder(network, frame_size=frame_size, progress=graphs, **rates)
    from antiphon.codec.graph_decoder import GraphDecoder
    from antiphon.families.voxcpm2.audio_vae_fused import FusedVAEDecoder

    with torch.inference_mode():
        fused = FusedVAEDecoder.of(network)
    return GraphDecoder(fused, num_quantizers=frame_size, progress=graphs, **rates)


def load_voice_encoder(context: LoadContext, *, pads: bool | None = None) -> ClonedVoiceEncoder:
    """Load the encoder of the AudioVAE; raises ModelLoadError.

    Patches are float32 ``[num_patches, patch_size * feature_size]``. Silence pads the last patch,
    or the first one if speech continues the recording.

    Args:
        pads: whether recordings are encoded in padded batches; ``None``: only on a GPU.
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

    def padded_after(samples: Tensor) -> Tensor:
        return encode(F.pad(samples, (0, -len(samples) % frame))[None])[0]

    def padded_before(samples: Tensor) -> Tensor:
        return encode(F.pad(samples, (-len(samples) % frame, 0))[None])[0]

    passes = {
        REFERENCE: PaddedPass(encode, padded_after, num_frames=num_frames),
        CONTINUED: PaddedPass(encode, padded_before, shift, num_frames),
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
