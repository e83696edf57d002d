import io
import wave

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from antiphon.audio.wav import pcm16, wav_header
from antiphon.contracts.types import Samples
from antiphon.errors import EngineError

RATE_HZ = 22050


def noise(num_samples: int) -> Samples:
    return np.random.default_rng(1).uniform(-1, 1, num_samples).astype(np.float32)


@pytest.mark.parametrize("num_samples", [0, 1, 999])
@pytest.mark.parametrize("is_known", [True, False])
def test_readers_find_all_samples(num_samples: int, is_known: bool) -> None:
    pcm = pcm16(noise(num_samples))
    file = wav_header(RATE_HZ, num_samples if is_known else None) + pcm

    with wave.open(io.BytesIO(file)) as reader:
        assert reader.getparams()[:3] == (1, 2, RATE_HZ)
        assert is_known == (reader.getnframes() == num_samples)
        assert reader.readframes(reader.getnframes()) == pcm

    samples, rate_hz = soundfile.read(io.BytesIO(file), dtype="int16")
    assert rate_hz == RATE_HZ
    assert samples.astype("<i2").tobytes() == pcm


def test_a_length_beyond_the_format_is_unknown() -> None:
    largest = (0xFFFFFFFF - 44) // 2
    assert wav_header(RATE_HZ, largest) != wav_header(RATE_HZ, None)
    assert wav_header(RATE_HZ, largest + 1) == wav_header(RATE_HZ, None)


@given(hnp.arrays(np.float32, st.integers(0, 50), elements=st.floats(-4, 4, width=32)))
def test_pcm_is_the_nearest_integer_within_full_scale(samples: Samples) -> None:
    integers = np.frombuffer(pcm16(samples), "<i2").astype(np.float64)
    wanted = np.clip(samples.astype(np.float64), -1, 1) * 32767
    assert np.all(np.abs(integers - wanted) <= 0.5 + 1e-2)
    assert np.all(np.abs(integers) <= 32767)
    rounded = np.round(np.clip(samples, -1, 1) * np.float32(32767))
    assert np.array_equal(integers, rounded), "halves go to the even one"


def test_samples_are_not_changed_by_making_integers_of_them() -> None:
    for scale in (0.5, 5.0):
        samples = noise(100) * np.float32(scale)
        before = samples.copy()
        pcm16(samples)
        assert np.array_equal(samples, before)


def test_full_scale_and_beyond() -> None:
    samples = np.array([0.0, 1.0, -1.0, 1.5, -7.0], np.float32)
    assert np.frombuffer(pcm16(samples), "<i2").tolist() == [0, 32767, -32767, 32767, -32767]


@pytest.mark.parametrize("fault", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_refused(fault: float) -> None:
    samples = noise(10)
    samples[7] = fault
    with pytest.raises(EngineError):
        pcm16(samples)
