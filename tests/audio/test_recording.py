"""A recording is the same as a path, as bytes and as samples, and wrong ones are told alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from antiphon.audio.recording import Recording, read_recording
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError
from tests.audio.files import tone, written


def read(recording: Recording, sample_rate_hz: int = 24_000) -> Samples:
    return read_recording(
        recording, sample_rate_hz=sample_rate_hz, max_duration_s=3, min_duration_s=1
    )


@pytest.mark.parametrize("source_hz", [8_000, 24_000, 44_100])
def test_a_recording_is_the_same_in_every_form(tmp_path: Path, source_hz: int) -> None:
    samples = tone(source_hz, 1.5)
    file = written(samples, source_hz, "WAV", "FLOAT")
    path = tmp_path / "a.wav"
    path.write_bytes(file)
    heard = read(file)
    assert heard.dtype == np.float32
    assert len(heard) == 36_000
    stereo = np.stack([samples * 1.5, samples * 0.5], axis=1)
    for form in (path, str(path), (samples, source_hz), (samples.astype(float), source_hz)):
        np.testing.assert_array_equal(read(form), heard)
    np.testing.assert_allclose(read((stereo, source_hz)), heard, atol=1e-6)
    integers = np.round(samples * 32768).astype(np.int16)
    np.testing.assert_allclose(read((integers, source_hz)), heard, atol=1e-4)


def test_loud_samples_are_clipped() -> None:
    heard = read((tone(24_000, 1) * 3, 24_000))
    assert (heard.min(), heard.max()) == (-1, 1)


@pytest.mark.parametrize(
    ("recording", "words"),
    [
        ((tone(24_000, 0.5), 24_000), r"too short \(0\.5s\). At least 1s"),
        ((tone(24_000, 3.5), 24_000), r"too long \(3\.5s\). Maximum 3s"),
        ((tone(24_000, 2), 0), "sample rate of 0 Hz"),
        ((np.zeros(0, np.float32), 24_000), "does not hold samples"),
        ((np.zeros((24_000, 2, 1)), 24_000), "does not hold samples"),
        ((np.zeros(24_000, np.complex64), 24_000), "does not hold samples"),
        ((np.full(24_000, np.nan), 24_000), "not finite"),
        (written(tone(8_000, 0.5), 8_000, "WAV"), r"too short \(0\.5s\). At least 1s"),
        (b"?", "not a readable"),
        ("nowhere.wav", "Could not read nowhere.wav"),
        (Path(), "Could not read"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_what_will_not_do_is_told(recording: Any, words: str) -> None:
    with pytest.raises(InvalidRequestError, match=words) as caught:
        read(recording)
    assert caught.value.param == "ref_audio"


@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.float16, np.float64])
def test_samples_of_every_type_mean_the_same(dtype: Any) -> None:
    scale = 1 if np.issubdtype(dtype, np.floating) else np.iinfo(dtype).max + 1
    half = np.full((24_000, 3), scale / 2).astype(dtype)
    heard = read((half, 24_000))
    assert heard.dtype == np.float32
    assert heard.shape == (24_000,)
    np.testing.assert_array_equal(heard, np.float32(0.5))


def test_the_limits_themselves_are_allowed() -> None:
    for duration_s in (1, 3):
        assert len(read((tone(16_000, duration_s), 16_000))) == 24_000 * duration_s


def test_the_callers_samples_are_left_alone() -> None:
    samples = tone(24_000, 1) * 3
    before = samples.copy()
    heard = read((samples, 24_000))
    heard[:] = 0
    np.testing.assert_array_equal(samples, before)


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.str_, object])
def test_other_types_are_refused(dtype: Any) -> None:
    with pytest.raises(InvalidRequestError, match="does not hold samples"):
        read((np.zeros(24_000).astype(dtype), 24_000))
