"""A recording is heard in a batch as it is heard alone, whatever else is in the batch."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from antiphon.contracts.family import LoadContext
from antiphon.contracts.prompt import Prompt
from antiphon.contracts.types import Latents, Samples
from antiphon.errors import InvalidRequestError
from antiphon.families.kit.cloned_voices import CODES, SPEAKER, Recording
from antiphon.families.kit.voice_encoder import ClonedVoiceEncoder
from antiphon.families.qwen3_tts import FAMILY
from antiphon.families.qwen3_tts.config import CheckpointTask
from antiphon.families.qwen3_tts.encoder import load_voice_encoder
from antiphon.stages.base import StageRequest
from antiphon.stages.build import EncoderStage
from tests.families.qwen3_tts.random_checkpoint import FEW_GROUPS

RATE_HZ = 24_000
SAMPLES_PER_FRAME = 1920


@pytest.fixture(scope="module")
def path(checkpoint: Callable[..., Path]) -> Path:
    return checkpoint("tiny", CheckpointTask.BASE)


@pytest.fixture(scope="module")
def alone(path: Path) -> ClonedVoiceEncoder:
    return load_voice_encoder(LoadContext(path, "cpu"))


@pytest.fixture(scope="module")
def padding(path: Path) -> ClonedVoiceEncoder:
    return load_voice_encoder(LoadContext(path, "cpu"), pads=True)


def recording(num_samples: int) -> Samples:
    rng = np.random.default_rng(num_samples)
    times_s = np.arange(num_samples) / RATE_HZ
    samples = 0.05 * rng.normal(size=num_samples)
    for hz in rng.uniform(80, 4000, 4):
        samples += 0.1 * np.sin(2 * np.pi * hz * times_s * (1 + 0.1 * times_s))
    return samples.astype(np.float32)


def heard(
    encoder: ClonedVoiceEncoder, part: str, recordings: Sequence[Samples]
) -> list[NDArray[Any]]:
    """Encode recordings of about one length, as many at once as may be of a batch."""
    batch = [Recording(samples, (part,)) for samples in recordings]
    (fitting,) = {encoder.batch_of(each) for each in batch}
    parts = [
        encoder.encode_batch(batch[first : first + fitting.max_size])
        for first in range(0, len(batch), fitting.max_size)
    ]
    return [each.data[part] for made in parts for each in made]


# One frame and less, whole frames, and one sample more: of every stride a part is left somewhere.
LENGTHS = (1_281, SAMPLES_PER_FRAME, 7 * SAMPLES_PER_FRAME + 1, 20_959, 31_111)


def test_in_a_batch_recordings_are_as_alone(
    alone: ClonedVoiceEncoder, padding: ClonedVoiceEncoder
) -> None:
    recordings = [recording(each) for each in LENGTHS]
    codes = heard(padding, CODES, recordings)
    vectors = heard(padding, SPEAKER, recordings)
    for samples, some_codes, vector in zip(recordings, codes, vectors, strict=True):
        (alone_codes,) = heard(alone, CODES, [samples])
        (alone_vector,) = heard(alone, SPEAKER, [samples])
        np.testing.assert_array_equal(some_codes, alone_codes)
        assert some_codes.dtype == np.int64
        np.testing.assert_allclose(vector, alone_vector, rtol=1e-5, atol=1e-5)


def check_company(
    encoder: ClonedVoiceEncoder, lengths: Sequence[int], others: Sequence[int]
) -> None:
    """Assert that what is made of recordings is the same, to the bit, whatever is beside them."""
    for part in (SPEAKER, CODES):
        recordings = [recording(each) for each in lengths]
        fitting = encoder.batch_of(Recording(recordings[0], (part,)))
        assert len(lengths) + len(others) <= fitting.max_size
        together = heard(encoder, part, recordings)
        turned = heard(encoder, part, [*map(recording, others), *recordings[::-1]])[::-1]
        for index, samples in enumerate(recordings):
            (by_itself,) = heard(encoder, part, [samples])
            np.testing.assert_array_equal(together[index], by_itself)
            np.testing.assert_array_equal(turned[index], by_itself)


def test_company_changes_nothing_to_the_bit(padding: ClonedVoiceEncoder) -> None:
    check_company(padding, (1_281, 31_111), (47_000,))


def test_what_will_not_do_is_refused_before_it_joins_a_batch(padding: ClonedVoiceEncoder) -> None:
    with pytest.raises(InvalidRequestError, match=r"Must be 0\.0533 to 312"):
        padding.batch_of(Recording(recording(100), (SPEAKER,)))
    with pytest.raises(InvalidRequestError, match="0 seconds of audio"):
        padding.batch_of(Recording(recording(0), (CODES,)))
    with pytest.raises(InvalidRequestError, match=r"to 312\.3 seconds"):
        padding.batch_of(Recording(np.zeros(330 * RATE_HZ, np.float32), (CODES,)))


def test_short_recordings_go_side_by_side_and_long_ones_are_bounded(
    padding: ClonedVoiceEncoder,
) -> None:
    def fitting(duration_s: float, part: str = CODES) -> tuple[Any, int]:
        samples = np.zeros(round(duration_s * RATE_HZ), np.float32)
        batch = padding.batch_of(Recording(samples, (part,)))
        return batch.key, batch.max_size

    assert fitting(1.0) == fitting(4.5) == fitting(6.0)
    assert fitting(6.0)[0] != fitting(8.0)[0]
    assert fitting(4.5)[0] != fitting(4.5, SPEAKER)[0]
    assert all(fitting(each)[1] * each <= 24 for each in (2, 4, 6, 8, 12, 16, 24))
    assert fitting(25.0)[1] == fitting(60.0)[1] == 1


async def stage_outcomes(encoder: ClonedVoiceEncoder, recordings: Sequence[Samples]) -> list[Any]:
    """Return what a stage makes of the codes of recordings that come at once; or the errors."""
    encoder_spec = FAMILY.tasks["speech"].encoder
    assert encoder_spec is not None
    stage = EncoderStage(encoder, encoder_spec, LoadContext(), lambda status: None)

    async def encode(number: int, samples: Samples) -> Any:
        prompt = Prompt(data=Recording(samples, (CODES,)), num_tokens=1, seed=0)
        async with aclosing(stage.open(StageRequest(f"{number}", prompt), None)) as items:
            return [item.data[CODES] async for item in items if isinstance(item, Latents)]

    made = await asyncio.gather(
        *(encode(number, each) for number, each in enumerate(recordings)), return_exceptions=True
    )
    await stage.close()
    return made


def test_one_that_is_silent_or_empty_leaves_others_as_they_are(padding: ClonedVoiceEncoder) -> None:
    good = recording(20_959)
    silent = np.zeros(24_000, np.float32)
    made = asyncio.run(stage_outcomes(padding, [good, silent, recording(0), good]))
    (by_itself,) = heard(padding, CODES, [good])
    np.testing.assert_array_equal(made[0], [by_itself])
    np.testing.assert_array_equal(made[3], [by_itself])
    assert made[1][0].shape == (13, FEW_GROUPS)
    assert isinstance(made[2], InvalidRequestError)


@pytest.mark.gpu
@pytest.mark.slow  # captures all graphs
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")
def test_company_changes_nothing_on_a_gpu(path: Path, alone: ClonedVoiceEncoder) -> None:
    encoder = load_voice_encoder(LoadContext(path, "cuda"))
    for lengths, others in (
        ((1_281, 31_111), (47_000,)),
        ((3 * RATE_HZ + 7, 4 * RATE_HZ), (50_000, 90_001)),
        ((5 * RATE_HZ, 4 * RATE_HZ + 960), (100_001,)),
    ):
        check_company(encoder, lengths, others)
        for each in lengths:
            (on_gpu,) = heard(encoder, CODES, [recording(each)])
            (on_cpu,) = heard(alone, CODES, [recording(each)])
            assert np.mean(on_gpu != on_cpu) <= 0.01, "sums in another order turn few codes"
            (on_gpu,) = heard(encoder, SPEAKER, [recording(each)])
            (on_cpu,) = heard(alone, SPEAKER, [recording(each)])
            np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-3, atol=1e-4)
