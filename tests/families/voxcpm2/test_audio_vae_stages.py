"""A recording is heard in a padded batch as it is heard alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.cloned_voices import Recording
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.voxcpm2.audio_vae_stages import load_voice_encoder
from antiphon.families.voxcpm2.request import CONTINUED, REFERENCE

PARTS = (REFERENCE, CONTINUED)
LENGTHS = (100, 9_600, 20_001, 70_007)


def recording(num_samples: int) -> Recording:
    samples = np.random.default_rng(num_samples).normal(0, 0.2, num_samples)
    return Recording(samples.astype(np.float32), PARTS)


def check_company(
    alone: ClonedVoiceEncoder, padding: ClonedVoiceEncoder, *, tolerance: float
) -> None:
    batch = [recording(each) for each in LENGTHS]
    (fitting,) = {padding.batch_of(each) for each in batch}
    assert fitting.max_size >= len(batch)
    for one, made in zip(batch, padding.encode_batch(batch), strict=True):
        for part in PARTS:
            patches = made.data[part]
            np.testing.assert_array_equal(patches, padding.encode(one).data[part])
            np.testing.assert_allclose(patches, alone.encode(one).data[part], atol=tolerance)


def test_in_a_batch_recordings_are_as_alone(
    context: LoadContext, encoder: ClonedVoiceEncoder
) -> None:
    check_company(encoder, load_voice_encoder(context, pads=True), tolerance=1e-5)


@pytest.mark.gpu
@pytest.mark.slow  # runs the encoder in all shapes
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_in_a_batch_recordings_are_as_alone_on_a_gpu(
    context: LoadContext, encoder: ClonedVoiceEncoder
) -> None:
    check_company(encoder, load_voice_encoder(replace(context, device="cuda")), tolerance=1e-3)


def test_what_will_not_do_is_refused_before_it_joins_a_batch(encoder: ClonedVoiceEncoder) -> None:
    for num_samples in (0, 1, 2):  # of 48 kHz; there is one of 16 kHz in three
        with pytest.raises(InvalidRequestError, match="more than 0"):
            encoder.batch_of(recording(num_samples))
    assert len(encoder.encode(recording(3)).data[REFERENCE]) == 1
    with pytest.raises(InvalidRequestError, match="60 seconds") as caught:
        encoder.batch_of(Recording(np.zeros(3_000_000, np.float32), (CONTINUED,), "prompt_audio"))
    assert caught.value.param == "prompt_audio"
