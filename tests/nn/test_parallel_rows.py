"""Recordings side by side are each encoded by their own samples, as they would be alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from antiphon.contracts.types import Samples
from antiphon.nn.padded_batches import PaddedPass
from antiphon.nn.parallel_rows import ParallelRows
from tests.nn.test_padded_batches import DEVICES, RATE_HZ, halves, means, ramp

FRAME_SAMPLES = 32


def rows_on(
    device: str, passes: Mapping[str, PaddedPass], *, pads: bool | None = True
) -> ParallelRows:
    return ParallelRows(
        passes,
        torch.device(device),
        sample_rate_hz=RATE_HZ,
        samples_per_frame=FRAME_SAMPLES,
        pads=pads,
    )


def usual_rows(device: str = "cpu", *, pads: bool | None = True) -> ParallelRows:
    passes = {
        "half mean": PaddedPass(means, lambda x: x.mean() / 2, halves),
        "samples": PaddedPass(lambda x, _: x + 1, lambda x: x + 1),
    }
    return rows_on(device, passes, pads=pads)


def check(row: Mapping[str, NDArray[Any]], samples: Samples) -> None:
    length = len(samples)
    np.testing.assert_allclose(row["half mean"], samples.mean() / 2, rtol=1e-5)
    np.testing.assert_array_equal(row["samples"][:length], samples + 1)
    assert (row["samples"][length:] == 1).all()


@pytest.mark.parametrize("device", DEVICES)
def test_every_row_is_of_its_own_recording(device: str) -> None:
    rows = usual_rows(device)
    for lengths in ((1, 150, 600, 9), (7,), (64, 301), (600, 1)):  # what was there before is gone
        recordings = [ramp(each) for each in lengths]
        made = rows.encode(("half mean", "samples"), recordings)
        assert len(made) == len(lengths)
        for samples, row in zip(recordings, made, strict=True):
            check(row, samples)


def test_a_pass_sees_one_recording_whose_length_depends_on_no_other() -> None:
    shapes: list[tuple[int, ...]] = []

    def seen(x: Tensor, lengths: Tensor) -> Tensor:
        shapes.append((*x.shape, *lengths.shape))
        return x

    rows = rows_on("cpu", {"seen": PaddedPass(seen, lambda x: x)})
    for lengths in ((100,), (100, 450, 100, 600), (450, 100)):
        rows.encode(("seen",), [ramp(each) for each in lengths])
    short, middle, long = (1, 224, 1), (1, 512, 1), (1, 608, 1)  # 2, 5 and 6 s, in whole frames
    assert shapes == [short, short, middle, short, long, middle, short]


def test_long_recordings_have_fewer_rows() -> None:
    rows = usual_rows()
    counts = {each: rows.num_rows(each * RATE_HZ) for each in (1, 2, 5, 6, 8, 10, 12, 16, 24, 25)}
    assert counts == {1: 4, 2: 4, 5: 4, 6: 4, 8: 3, 10: 2, 12: 2, 16: 1, 24: 1, 25: 1}
    for duration_s, count in counts.items():
        recordings = [ramp(duration_s * RATE_HZ - each) for each in range(count)]
        made = rows.encode(("half mean", "samples"), recordings)
        for samples, row in zip(recordings, made, strict=True):
            check(row, samples)


def test_only_what_is_wanted_is_made() -> None:
    (row,) = usual_rows().encode(("samples",), [ramp(3)])
    assert list(row) == ["samples"]


@pytest.mark.parametrize(("pads", "num_samples"), [(None, 7), (False, 7), (True, 2433)])
def test_what_is_not_padded_is_encoded_as_it_is(pads: bool | None, num_samples: int) -> None:
    rows = usual_rows(pads=pads)
    assert rows.num_rows(num_samples) == 1
    samples = ramp(num_samples)
    (row,) = rows.encode(("half mean", "samples"), [samples])
    assert len(row["samples"]) == num_samples
    check(row, samples)
