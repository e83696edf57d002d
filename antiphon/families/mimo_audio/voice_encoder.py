"""Encoder stage: codes of reference audio."""

import torch

from antiphon.contracts.family import LoadContext
from antiphon.families.kit.cloned_voices import CODES, RecordingLimits
from antiphon.families.kit.loading import like_of
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.mimo_audio.audio_encoder import AudioEncoder
from antiphon.families.mimo_audio.checkpoint import (
    UNUSED_IN_TOKENIZER,
    spare_codebooks,
    tokenizer_layout_of,
)
from antiphon.families.mimo_audio.config_reader import load_config, load_tokenizer_config
from antiphon.families.mimo_audio.tokenizer_path import tokenizer_path
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass
from antiphon.nn.weights import open_weights

_MIN_RECORDING_S, _MAX_RECORDING_S = 0.5, 30


def load_voice_encoder(context: LoadContext, *, pads: bool | None = None) -> ClonedVoiceEncoder:
    """Load the tokenizer's encoder, whose codes are int64 ``[num_frames, num_codes]``.

    Args:
        context: checkpoint, device and settings of the stage.
        pads: whether recordings are encoded in padded batches; ``None``: only on a GPU.

    Raises:
        ModelLoadError: the audio tokenizer cannot be loaded.
    """
    encoder = load_audio_encoder(context)
    rate_hz = encoder.config.sample_rate_hz
    codes = PaddedPass(encoder.encode_rows, encoder.encode, encoder.mels, encoder.num_frames)
    batches = PaddedBatches(
        {CODES: codes},
        encoder.filters.device,
        sample_rate_hz=rate_hz,
        samples_per_frame=encoder.frame_samples,
        pads=pads,
    )
    limits = RecordingLimits(rate_hz, _MAX_RECORDING_S, _MIN_RECORDING_S)
    return ClonedVoiceEncoder(batches, limits, [CODES])


def load_audio_encoder(context: LoadContext) -> AudioEncoder:
    """Load only the network; raises ModelLoadError."""
    path = tokenizer_path(context.checkpoint)
    config = load_tokenizer_config(path, load_config(context.checkpoint))
    opened = open_weights(
        path,
        tokenizer_layout_of(config),
        like=like_of(context, "float32"),
        part="encoder.",
        unused=f"{UNUSED_IN_TOKENIZER}|{spare_codebooks(config)}",
    )
    with torch.inference_mode(), opened as weights:
        return AudioEncoder.of(weights, config)
