"""Recordings of about one length are encoded in one shape, each by its own samples."""

import numpy as np
import pytest
import torch
from torch import Tensor

from antiphon.contracts.types import Samples
from antiphon.nn.padded_batches import PaddedBatches, PaddedPass

RATE_HZ = 100
DEVICES = (
    "cpu",
    pytest.param(
        "cuda",
        marks=[
            pytest.mark.gpu,
            pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
        ],
    ),
)


def halves(samples: Tensor, lengths: Tensor) -> Tensor:
    assert samples.shape[0] == len(lengths)
    return samples / 2


def means(x: Tensor, lengths: Tensor) -> Tensor:
    return x.sum(dim=1) / lengths


def batches_on(device: str, *, captures: bool = True, pads: bool | None = True) -> PaddedBatches:
    passes = {
        "half mean": PaddedPass(means, lambda x: x.mean() / 2, halves),
        "samples": PaddedPass(lambda x, _: x + 1, lambda x: x + 1),
    }
    return PaddedBatches(
        passes,
        torch.device(device),
        sample_rate_hz=RATE_HZ,
        samples_per_frame=32,
        captures=captures,
        pads=pads,
    )


def ramp(num_samples: int) -> Samples:
    return np.linspace(1, 2, num_samples, dtype=np.float32)


@pytest.mark.parametrize("captures", [True, False])
@pytest.mark.parametrize("device", DEVICES)
def test_every_row_is_of_its_own_recording(device: str, captures: bool) -> None:
    batches = batches_on(device, captures=captures)
    for lengths in ((1, 150, 224), (7,), (64, 201)):  # what was there before is gone
        recordings = [ramp(each) for each in lengths]
        made = batches.encode(("half mean", "samples"), recordings, 224)
        assert len(made) == len(lengths)
        for length, row in zip(lengths, made, strict=True):
            np.testing.assert_allclose(row["half mean"], ramp(length).mean() / 2, rtol=1e-5)
            np.testing.assert_allclose(row["samples"][:length], ramp(length) + 1)
            assert (row["samples"][length:] == 1).all()


def test_lengths_are_whole_frames_and_batches_of_bounded_time() -> None:
    batches = batches_on("cpu")
    assert [batches.length_of(each) for each in (1, 200, 224, 225, 416)] == [224] * 3 + [416] * 2
    assert (batches.length_of(2400), batches.length_of(2401)) == (2400, None)
    for num_samples in (200, 400, 800, 2400):
        length = batches.length_of(num_samples)
        assert length is not None
        assert 1 <= batches.num_rows(length) <= 8
        assert batches.num_rows(length) * length <= 25 * RATE_HZ


def test_only_what_is_wanted_is_made() -> None:
    (row,) = batches_on("cpu").encode(("samples",), [ramp(3)], 224)
    assert list(row) == ["samples"]


@pytest.mark.parametrize(("pads", "num_samples"), [(None, 7), (False, 7), (True, 2401)])
def test_what_is_in_no_batch_is_encoded_by_itself(pads: bool | None, num_samples: int) -> None:
    batches = batches_on("cpu", pads=pads)
    length = batches.length_of(num_samples)
    assert (length, batches.num_rows(length)) == (None, 1)
    recordings = [ramp(num_samples), ramp(3)]
    for recording, row in zip(
        recordings, batches.encode(("half mean", "samples"), recordings, length), strict=True
    ):
        np.testing.assert_allclose(row["half mean"], recording.mean() / 2, rtol=1e-5)
        np.testing.assert_array_equal(row["samples"], recording + 1)
