"""The codec's encoder names the same codes as the official one, frame after frame."""

import math
from functools import cache

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.families.qwen3_tts.encoder import CodecEncoder
from tests.families.qwen3_tts.codec_models import (
    codec_weights,
    recorded,
    reference_audio,
    tiny_config,
)

SAMPLES_PER_FRAME = 1920


@cache
def encoder() -> CodecEncoder:
    codec = tiny_config().codec
    assert codec.encoder is not None
    return CodecEncoder.of(codec_weights(tiny_config), codec.encoder, codec.num_quantizers)


def test_codes_are_as_official() -> None:
    official = torch.from_numpy(recorded()["encoded"]).long()
    assert len(official) * 2 > 250  # longer than the attention window that nobody applies
    assert len(set(official.flatten().tolist())) > 500
    assert torch.equal(encoder().encode(reference_audio()), official)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4 * SAMPLES_PER_FRAME))
def test_every_length_gives_whole_frames(num_samples: int) -> None:
    codes = encoder().encode(reference_audio()[:num_samples])
    assert codes.shape == (math.ceil(num_samples / SAMPLES_PER_FRAME), 16)
    assert codes.dtype == torch.int64


@pytest.mark.parametrize("num_frames", [1, 5, 11])
def test_what_follows_changes_no_earlier_frame(num_frames: int) -> None:
    samples = reference_audio()
    codes = encoder().encode(samples[: 20 * SAMPLES_PER_FRAME])
    start = encoder().encode(samples[: num_frames * SAMPLES_PER_FRAME])
    assert torch.equal(start, codes[:num_frames])
