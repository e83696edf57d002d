"""The speaker encoder hears what the official one hears."""

from functools import cache

import numpy as np
import pytest
import torch

from antiphon.nn.ecapa import EcapaEncoder
from antiphon.nn.mel import HOP_SAMPLES, log_mel, mel_filters
from tests.families.qwen3_tts.codec_models import (
    recorded,
    reference_audio,
    speaker_weights,
    tiny_config,
)

SAMPLE_RATE_HZ = 24000


@cache
def encoder() -> EcapaEncoder:
    config = tiny_config().speaker_encoder
    assert config is not None
    return EcapaEncoder.of(speaker_weights(), "speaker_encoder", config)


def test_vectors_are_as_official() -> None:
    official = torch.from_numpy(recorded()["speaker"])
    assert official.std() > 0.1
    torch.testing.assert_close(encoder().embed(reference_audio()), official, rtol=0, atol=1e-4)


def test_mel_filters_are_those_of_librosa() -> None:
    filters = mel_filters(128, SAMPLE_RATE_HZ)
    assert np.array_equal(filters, recorded()["mel_filters"])


@pytest.mark.parametrize("num_samples", [400, 1280, 24000, 24001])
def test_a_mel_frame_is_made_for_every_hop(num_samples: int) -> None:
    mels = log_mel(reference_audio()[:num_samples], 128, SAMPLE_RATE_HZ)
    assert mels.shape == (num_samples // HOP_SAMPLES, 128)
    assert mels.isfinite().all()


def test_a_tone_is_loudest_in_its_own_band() -> None:
    hz = 3000.0
    tone = torch.sin(2 * torch.pi * hz * torch.arange(SAMPLE_RATE_HZ) / SAMPLE_RATE_HZ)
    loudest = int(log_mel(tone, 128, SAMPLE_RATE_HZ).mean(0).argmax())
    band = np.flatnonzero(mel_filters(128, SAMPLE_RATE_HZ)[loudest]) * SAMPLE_RATE_HZ / 1024
    assert band.min() <= hz <= band.max()


def test_the_shortest_recording_works() -> None:
    shortest = reference_audio()[: encoder().min_samples]
    assert encoder().embed(shortest).isfinite().all()
