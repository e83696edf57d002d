"""The stage that encodes recordings of voices into patches of latents."""

from collections.abc import Generator
from threading import Lock

import numpy as np
import torch

from antiphon.audio.resample import Resampler
from antiphon.errors import InvalidRequestError
from antiphon.models.base import Prompt
from antiphon.models.spec import LoadContext
from antiphon.models.voxcpm2.audio_vae import VAEEncoder
from antiphon.models.voxcpm2.config import load_config
from antiphon.models.voxcpm2.recording import MAX_RECORDING_S, RecordedVoice, noise
from antiphon.models.voxcpm2.weights import vae_weights
from antiphon.nn.device import resolve_device
from antiphon.nn.precision import exact_float32
from antiphon.types import Latents, Samples

_WARM_UP_S = (1.0, 3.0, 5.0, 10.0, 20.0)  # a GPU has other kernels for other lengths


class VAEVoiceEncoder:
    """The encoder of the AudioVAE, a `StageGenerator`; safe for threads, one at a time."""

    def __init__(self, context: LoadContext) -> None:
        """Load and warm the encoder; raises ModelLoadError if it cannot be loaded."""
        assert context.path is not None, "the family needs a checkpoint"
        self._config = load_config(context.path)
        self._device = resolve_device(context.device, context.memory_fraction)
        self._lock = Lock()
        like = torch.empty(0, dtype=torch.float32, device=self._device)
        weights = vae_weights(context.path, self._config.vae, "encoder.", like=like)
        self._encoder = VAEEncoder.of(weights, self._config.vae)
        for duration_s in _WARM_UP_S if self._device.type == "cuda" else _WARM_UP_S[:1]:
            self.encode(noise(duration_s, self._config.vae.out_sample_rate))

    def generate(self, prompt: Prompt) -> Generator[Latents, None, None]:
        """Yield the patches of the prompt's `RecordedVoice`.

        Raises:
            InvalidRequestError: the recording is too long, or has no samples.
        """
        yield self.encode(prompt.data)

    @torch.inference_mode()
    def encode(self, recording: RecordedVoice) -> Latents:
        """Return patches of a recording, f32 ``[num_patches, patch_size * feature_size]``.

        Silence fills the last patch up, or the first one if the recording is to be continued.

        Raises:
            InvalidRequestError: the recording is too long, or has no samples.
        """
        config, rate_hz = self._config.vae, self._config.vae.out_sample_rate
        if not 0 < len(recording.samples) <= MAX_RECORDING_S * rate_hz:
            raise InvalidRequestError(
                f"Invalid '{recording.param}': it must have sound, and at most"
                f" {MAX_RECORDING_S} seconds of it.",
                param=recording.param,
            )
        samples = _resampled(recording.samples, rate_hz, config.sample_rate)
        missing = -len(samples) % self._config.encoded_samples_per_frame
        samples = np.pad(samples, (missing, 0) if recording.is_continued else (0, missing))
        with self._lock, exact_float32():
            latents = self._encoder.encode(torch.from_numpy(samples).to(self._device))
            patches = latents.reshape(-1, self._config.frame_size - 1)
            return Latents(patches.cpu().numpy())

    def close(self) -> None:
        """Nothing to free that does not go with it."""


def _resampled(samples: Samples, source_hz: int, target_hz: int) -> Samples:
    if source_hz == target_hz:
        return samples
    resampler = Resampler(source_hz, target_hz)
    return np.concatenate((resampler.push(samples), resampler.flush()))
