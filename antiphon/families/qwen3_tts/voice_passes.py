"""What is made of recordings of voices in padded batches: speaker vectors and codes."""

from collections.abc import Mapping
from functools import partial

import torch
from torch import Tensor

from antiphon.families.qwen3_tts.encoder import CodecEncoder
from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.mel import HOP_SAMPLES, log_mel_rows, mel_filters
from antiphon.nn.padded_batches import PaddedPass
from antiphon.nn.row_lengths import RowLengths


def voice_passes(speaker: EcapaEncoder, codec: CodecEncoder) -> Mapping[str, PaddedPass]:
    """Return the passes of both encoders, by what recordings are asked for.

    Speaker vectors are float32 ``[B, D]``, of recordings of at least ``speaker.min_samples``; codes
    are int64 ``[B, num_frames, Q]``. Spectrograms are made outside of graphs: a few kernels, whose
    plans cuFFT keeps itself.
    """
    config, device = speaker.config, speaker.project.weight.device
    filters = torch.from_numpy(mel_filters(config.mel_dim, config.sample_rate_hz)).to(device)
    return {
        "speaker": PaddedPass(partial(_vectors, speaker), speaker.embed, partial(_mels, filters)),
        "codes": PaddedPass(codec.encode_rows, codec.encode),
    }


def _mels(filters: Tensor, samples: Tensor, lengths: Tensor) -> Tensor:
    return log_mel_rows(samples, RowLengths(lengths), filters)


def _vectors(speaker: EcapaEncoder, mels: Tensor, lengths: Tensor) -> Tensor:
    return speaker.pooled(mels, RowLengths(lengths // HOP_SAMPLES))[:, :, 0]
