"""The stage that encodes recordings of voices into codes."""

from collections.abc import Sequence

import torch

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import EncodingBatch
from antiphon.contracts.types import Latents, Samples
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.recordings import warm_up_samples
from antiphon.families.mimo_audio.audio_encoder import AudioEncoder
from antiphon.families.mimo_audio.checkpoint import (
    UNUSED_IN_TOKENIZER,
    spare_codebooks,
    tokenizer_layout_of,
)
from antiphon.families.mimo_audio.config_reader import load_config, load_tokenizer_config
from antiphon.families.mimo_audio.recording import MAX_RECORDING_S, MIN_RECORDING_S
from antiphon.families.mimo_audio.tokenizer_path import tokenizer_path
from antiphon.nn.device import resolve_device
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass
from antiphon.nn.weights import open_weights

_CODES = "codes"


class CodeVoiceEncoder:
    """The tokenizer's encoder, a `BatchEncoder`; used by one thread at a time.

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
        path = tokenizer_path(context.path)
        config = load_tokenizer_config(path, load_config(context.path))
        self._rate_hz = config.sample_rate_hz
        device = resolve_device(context.device, context.memory_fraction)
        opened = open_weights(
            path,
            tokenizer_layout_of(config),
            like=torch.empty(0, dtype=torch.float32, device=device),
            part="encoder.",
            unused=f"{UNUSED_IN_TOKENIZER}|{spare_codebooks(config)}",
        )
        with torch.inference_mode(), opened as weights:
            self._encoder = encoder = AudioEncoder.of(weights, config)
        self._batches = PaddedBatches(
            {_CODES: PaddedPass(encoder.encode_rows, encoder.encode, encoder.mels)},
            device,
            sample_rate_hz=self._rate_hz,
            samples_per_frame=encoder.frame_samples,
            pads=pads,
        )
        self.encode(warm_up_samples(self._rate_hz))

    def batch_of(self, data: Samples) -> EncodingBatch:
        """Return which others a recording is encoded with: those of about its length.

        Raises:
            InvalidRequestError: there are too few samples, or too many.
        """
        if not MIN_RECORDING_S <= len(data) / self._rate_hz <= MAX_RECORDING_S:
            raise InvalidRequestError(
                f"Invalid 'ref_audio': it must have {MIN_RECORDING_S:g} to {MAX_RECORDING_S}"
                " seconds.",
                param="ref_audio",
            )
        length = self._batches.length_of(len(data))
        return EncodingBatch(length, self._batches.num_rows(length))

    def encode_batch(self, batch: Sequence[Samples]) -> list[Latents]:
        """Return codes, int64 ``[num_frames, num_codes]``, of samples, f32 ``[num_samples]``."""
        made = self._batches.encode([_CODES], batch, self._batches.length_of(len(batch[0])))
        return [
            Latents(row[_CODES][: self._encoder.num_frames(len(samples))])
            for samples, row in zip(batch, made, strict=True)
        ]

    def encode(self, samples: Samples) -> Latents:
        """Encode one recording; see `encode_batch`.

        Raises:
            InvalidRequestError: there are too few samples, or too many.
        """
        self.batch_of(samples)
        return self.encode_batch([samples])[0]

    def close(self) -> None:
        """Nothing to free that does not go with it."""
