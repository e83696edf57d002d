"""Encoder stage: speaker vector and codes of reference audio."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from antiphon.contracts.family import LoadContext
from antiphon.families.kit.cloned_voices import CODES, SPEAKER, RecordingLimits
from antiphon.families.kit.loading import like_of
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.qwen3_tts.config_reader import load_config
from antiphon.families.qwen3_tts.encoder import CodecEncoder
from antiphon.families.qwen3_tts.stopping import MAX_POSITIONS, RESERVED_FRAMES
from antiphon.families.qwen3_tts.weights import codec_encoder_weights, speaker_encoder_weights
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.mel import HOP_SAMPLES, log_mel_rows, mel_filters
from antiphon.nn.padded_batches import PaddedPass
from antiphon.nn.parallel_rows import ParallelRows
from antiphon.nn.row_lengths import RowLengths


def load_voice_encoder(context: LoadContext, *, pads: bool | None = None) -> ClonedVoiceEncoder:
    """Load the encoders of a base checkpoint.

    Args:
        context: device and settings of loading.
        pads: whether recordings are padded; ``None``: on a GPU.

    Raises:
        ModelLoadError: the encoders cannot be loaded.
    """
    config = load_config(context.checkpoint)
    assert config.speaker_encoder is not None, "only base checkpoints encode voices"
    path, like, is_dummy = context.checkpoint, like_of(context, "float32"), context.is_dummy
    with speaker_encoder_weights(path, config, like=like, is_dummy=is_dummy) as weights:
        speaker = EcapaEncoder.of(weights, "speaker_encoder", config.speaker_encoder)
    with codec_encoder_weights(path, config, like=like, is_dummy=is_dummy) as weights:
        codec = CodecEncoder.of(weights, config.codec.encoder, config.codec.num_quantizers)
    rate_hz, frame = config.codec.sample_rate_hz, config.codec.samples_per_frame
    batches = ParallelRows(
        _passes(speaker, codec, frame),
        like.device,
        sample_rate_hz=rate_hz,
        samples_per_frame=frame,
        pads=pads,
    )
    max_s = (MAX_POSITIONS - RESERVED_FRAMES) * frame / rate_hz
    limits = RecordingLimits(rate_hz, max_s, speaker.min_samples / rate_hz)
    return ClonedVoiceEncoder(batches, limits, [SPEAKER, CODES])


def _passes(speaker: EcapaEncoder, codec: CodecEncoder, frame: int) -> Mapping[str, PaddedPass]:
    """Return the passes of both encoders.

    Speaker vectors are float32 ``[B, D]``; codes are int64 ``[B, num_frames, Q]``. Spectrograms are
    computed outside of graphs: a few kernels, whose plans cuFFT caches itself.
    """
    config, device = speaker.config, speaker.project.weight.device
    filters = torch.from_numpy(mel_filters(config.mel_dim, config.sample_rate_hz)).to(device)
    codes = PaddedPass(
        codec.encode_rows, codec.encode, num_frames=lambda num_samples: -(-num_samples // frame)
    )
    vectors = PaddedPass(partial(_vectors, speaker), speaker.embed, partial(_mels, filters))
    return {SPEAKER: vectors, CODES: codes}


def _mels(filters: Tensor, samples: Tensor, lengths: Tensor) -> Tensor:
    return log_mel_rows(samples, RowLengths(lengths), filters)


def _vectors(speaker: EcapaEncoder, mels: Tensor, lengths: Tensor) -> Tensor:
    return speaker.pooled(mels, RowLengths(lengths // HOP_SAMPLES))[:, :, 0]
