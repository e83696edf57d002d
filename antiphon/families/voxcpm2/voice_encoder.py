"""The stage that encodes recordings of voices into patches of latents."""

from collections.abc import Sequence

import numpy as np
import torch

from antiphon.audio.resample import resampled
from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import EncodingBatch
from antiphon.contracts.types import Latents, Samples
from antiphon.errors import InvalidRequestError
from antiphon.families.voxcpm2.audio_vae import VAEEncoder
from antiphon.families.voxcpm2.config import load_config
from antiphon.families.voxcpm2.recording import MAX_RECORDING_S, RecordedVoice, noise
from antiphon.families.voxcpm2.weights import vae_weights
from antiphon.nn.device import resolve_device
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass

_LATENTS = "latents"
_WARM_UP_S = 1.0


class VAEVoiceEncoder:
    """The encoder of the AudioVAE, a `BatchEncoder`; used by one thread at a time.

    On a GPU recordings are encoded in padded batches.
    """

    def __init__(self, context: LoadContext, *, pads: bool | None = None) -> None:
        """Load and warm the encoder.

        Args:
            context: what to load, and where.
            pads: whether recordings are encoded in padded batches; default: on a GPU.

        Raises:
            ModelLoadError: it cannot be loaded.
        """
        assert context.path is not None, "the family needs a checkpoint"
        self._config = load_config(context.path)
        device = resolve_device(context.device, context.memory_fraction)
        like = torch.empty(0, dtype=torch.float32, device=device)
        weights = vae_weights(context.path, self._config.vae, "encoder.", like=like)
        encoder = VAEEncoder.of(weights, self._config.vae)
        of_rows = PaddedPass(lambda samples, _: encoder.encode_rows(samples), encoder.encode)
        self._batches = PaddedBatches(
            {_LATENTS: of_rows},
            device,
            sample_rate_hz=self._config.vae.sample_rate,
            samples_per_frame=self._config.encoded_samples_per_frame,
            captures=False,
            pads=pads,
        )
        self.encode(noise(_WARM_UP_S, self._config.vae.out_sample_rate))

    def batch_of(self, data: RecordedVoice) -> EncodingBatch:
        """Return which others a recording is encoded with: those of about its length.

        Raises:
            InvalidRequestError: the recording is too long, or has no sample at the encoder's rate.
        """
        config, num_samples = self._config.vae, len(data.samples)
        has_sound = num_samples * config.sample_rate >= config.out_sample_rate
        if not has_sound or num_samples > MAX_RECORDING_S * config.out_sample_rate:
            raise InvalidRequestError(
                f"Invalid '{data.param}': it must have sound, and at most"
                f" {MAX_RECORDING_S} seconds of it.",
                param=data.param,
            )
        length = self._length(data)
        return EncodingBatch(length, self._batches.num_rows(length))

    def encode_batch(self, batch: Sequence[RecordedVoice]) -> list[Latents]:
        """Return patches of recordings, f32 ``[num_patches, patch_size * feature_size]``.

        Silence fills the last patch up, or the first one if a recording is to be continued.
        """
        filled = [self._filled(each) for each in batch]
        rows = self._batches.encode([_LATENTS], filled, self._length(batch[0]))
        size, frame = self._config.frame_size - 1, self._config.encoded_samples_per_frame
        return [
            Latents(row[_LATENTS].reshape(-1, size)[: len(samples) // frame])
            for samples, row in zip(filled, rows, strict=True)
        ]

    def encode(self, recording: RecordedVoice) -> Latents:
        """Encode one recording; see `encode_batch`.

        Raises:
            InvalidRequestError: the recording is too long, or has no samples.
        """
        self.batch_of(recording)
        return self.encode_batch([recording])[0]

    def _length(self, recording: RecordedVoice) -> int | None:
        """Return the length that a recording is padded to; ``None``: it is encoded by itself."""
        config = self._config.vae
        # As many as resampling and filling up may give.
        num_samples = -(-len(recording.samples) * config.sample_rate // config.out_sample_rate)
        num_samples += -num_samples % self._config.encoded_samples_per_frame
        return self._batches.length_of(num_samples)

    def _filled(self, recording: RecordedVoice) -> Samples:
        """Return samples at the encoder's rate that are whole patches."""
        config = self._config.vae
        samples = resampled(recording.samples, config.out_sample_rate, config.sample_rate)
        missing = -len(samples) % self._config.encoded_samples_per_frame
        return np.pad(samples, (missing, 0) if recording.is_continued else (0, missing))

    def close(self) -> None:
        """Nothing to free that does not go with it."""
