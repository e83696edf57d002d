"""A recording is heard in a padded batch as it is heard alone."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from antiphon.contracts.family import LoadContext
from antiphon.errors import InvalidRequestError
from antiphon.families.fish_speech.encoder import load_voice_encoder
from antiphon.families.kit.cloned_voices import CODES, Recording
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from tests.families.fish_speech.random_checkpoint import encoder_in

FRAME_SAMPLES = 2048
LENGTHS = (1, FRAME_SAMPLES, 5 * FRAME_SAMPLES + 1, 20_000)


def recording(num_samples: int) -> Recording:
    samples = np.random.default_rng(num_samples).normal(0, 0.2, num_samples)
    return Recording(samples.astype(np.float32), (CODES,))


def check_company(alone: ClonedVoiceEncoder, padding: ClonedVoiceEncoder) -> None:
    batch = [recording(each) for each in LENGTHS]
    (fitting,) = {padding.batch_of(each) for each in batch}
    assert fitting.max_size >= len(batch)
    for samples, made in zip(batch, padding.encode_batch(batch), strict=True):
        codes = made.data[CODES]
        np.testing.assert_array_equal(codes, padding.encode(samples).data[CODES])
        expected = alone.encode(samples).data[CODES]
        assert codes.shape == expected.shape
        # A tie that rounding decides changes a code, and those after it in its frame.
        assert (codes == expected).all(axis=1).mean() > 0.9


def test_silence_behind_a_recording_changes_no_code(made: Callable[[str], Path]) -> None:
    encoder = encoder_in(made("s2"))
    samples = torch.zeros(len(LENGTHS), 10 * FRAME_SAMPLES)
    for row, length in zip(samples, LENGTHS, strict=True):
        row[:length] = torch.from_numpy(recording(length).samples)
    with torch.inference_mode():
        for length, row, codes in zip(LENGTHS, samples, encoder.encode_rows(samples), strict=True):
            alone = encoder.encode(row[:length])
            assert (codes[: len(alone)] == alone).all(dim=1).float().mean() > 0.9


@pytest.mark.slow  # eight rows of two seconds each time
def test_in_a_batch_recordings_are_as_alone(made: Callable[[str], Path]) -> None:
    context = LoadContext(path=made("s2"), device="cpu")
    check_company(load_voice_encoder(context), load_voice_encoder(context, pads=True))


@pytest.mark.gpu
@pytest.mark.slow  # runs the codec in all shapes
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_in_a_batch_recordings_are_as_alone_on_a_gpu(made: Callable[[str], Path]) -> None:
    on_cpu = LoadContext(path=made("s2"), device="cpu")
    on_gpu = LoadContext(path=made("s2"), device="cuda")
    check_company(load_voice_encoder(on_cpu), load_voice_encoder(on_gpu))


def test_what_will_not_do_is_refused_before_it_joins_a_batch(
    made: Callable[[str], Path],
) -> None:
    encoder = load_voice_encoder(LoadContext(path=made("s2"), device="cpu"))
    with pytest.raises(InvalidRequestError, match="Must be more than 0 and at most"):
        encoder.batch_of(recording(0))
    with pytest.raises(InvalidRequestError, match="at most"):
        encoder.batch_of(Recording(np.zeros(10_000_000, np.float32), (CODES,)))
