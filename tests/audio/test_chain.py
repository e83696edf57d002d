import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.audio.chain import Chain, Transform
from antiphon.audio.resample import Resampler, resampled
from antiphon.audio.stretch import Stretcher
from antiphon.contracts.types import Samples

SPEEDS = [0.25, 0.4, 0.5, 0.8, 1.25, 2.0, 2.5, 4.0]

TRANSFORMS: dict[str, Callable[[], Transform]] = {
    "up": lambda: Resampler(24000, 48000),
    "down": lambda: Resampler(24000, 8000),
    "odd": lambda: Resampler(22050, 23999),
    "slow": lambda: Stretcher(24000, 0.7),
    "slowest": lambda: Stretcher(16000, 0.25),
    "fast": lambda: Stretcher(44100, 1.5),
    "fastest": lambda: Stretcher(24000, 4.0),
    "chain": lambda: Chain(24000, 16000, 1.3),
    "identity": lambda: Chain(24000, 24000, 1.0),
}


def voice_like(sample_rate_hz: int, num_samples: int) -> Samples:
    """A swelling tone in a little noise: no two moments are alike."""
    time_s = np.arange(num_samples) / sample_rate_hz
    swelling = 0.3 * np.sin(2 * np.pi * 220 * time_s) * (1 + np.sin(9 * time_s))
    noise = 0.03 * np.random.default_rng(2).standard_normal(num_samples)
    samples: Samples = (swelling + noise).astype(np.float32)
    return samples


def tone(frequency_hz: float, sample_rate_hz: int, duration_s: float) -> Samples:
    time_s = np.arange(int(duration_s * sample_rate_hz)) / sample_rate_hz
    return (0.5 * np.sin(2 * np.pi * frequency_hz * time_s)).astype(np.float32)


def whole(transform: Transform, samples: Samples) -> Samples:
    return np.concatenate([transform.push(samples), transform.flush()])


def peak_hz(samples: Samples, sample_rate_hz: int) -> float:
    spectrum = np.abs(np.fft.rfft(samples * np.hanning(len(samples))))
    return float(np.argmax(spectrum)) * sample_rate_hz / len(samples)


@pytest.mark.parametrize("name", TRANSFORMS)
@settings(max_examples=20, deadline=None)
@given(
    num_samples=st.integers(0, 9000), lengths=st.lists(st.integers(0, 2500), min_size=1, max_size=9)
)
def test_output_does_not_depend_on_how_the_input_is_cut(
    name: str, num_samples: int, lengths: list[int]
) -> None:
    samples = voice_like(24000, num_samples)
    transform = TRANSFORMS[name]()
    pieces = np.split(samples, np.minimum(np.cumsum(lengths), num_samples))
    streamed = [*map(transform.push, pieces), transform.flush()]
    np.testing.assert_array_equal(np.concatenate(streamed), whole(TRANSFORMS[name](), samples))


@pytest.mark.parametrize("name", ["slow", "fast", "down"])
def test_single_samples_give_the_same(name: str) -> None:
    samples = voice_like(24000, 2000)
    transform = TRANSFORMS[name]()
    streamed = [transform.push(samples[i : i + 1]) for i in range(len(samples))]
    np.testing.assert_array_equal(
        np.concatenate([*streamed, transform.flush()]), whole(TRANSFORMS[name](), samples)
    )


@pytest.mark.parametrize("name", TRANSFORMS)
def test_samples_are_float32_in_one_dimension_even_if_there_are_none(name: str) -> None:
    transform = TRANSFORMS[name]()
    for samples in (transform.push(np.zeros(0, np.float32)), transform.flush()):
        assert samples.dtype == np.float32
        assert samples.shape == (0,)


@settings(max_examples=40, deadline=None)
@given(
    source_hz=st.integers(8000, 48000),
    target_hz=st.integers(8000, 48000),
    num_samples=st.integers(0, 3000),
)
def test_resampling_keeps_the_duration(source_hz: int, target_hz: int, num_samples: int) -> None:
    made = whole(Resampler(source_hz, target_hz), voice_like(source_hz, num_samples))
    assert abs(len(made) - num_samples * target_hz / source_hz) <= 1


@pytest.mark.parametrize("source_hz", [8000, 11025, 24000, 44100])
def test_a_whole_recording_is_resampled_as_a_stream(source_hz: int) -> None:
    samples = voice_like(source_hz, 5000)
    made = resampled(samples, source_hz, 24000)
    wanted = whole(Resampler(source_hz, 24000), samples) if source_hz != 24000 else samples
    np.testing.assert_array_equal(made, wanted)


@pytest.mark.parametrize("target_hz", [8000, 16000, 22050, 44100, 48000])
def test_resampling_keeps_each_moment_in_its_place(target_hz: int) -> None:
    made = whole(Resampler(24000, target_hz), tone(440, 24000, 0.5))
    middle = slice(target_hz // 10, target_hz * 4 // 10)
    np.testing.assert_allclose(made[middle], tone(440, target_hz, 0.5)[middle], atol=1e-3)


def test_resampling_leaves_out_what_the_target_cannot_hold() -> None:
    made = whole(Resampler(24000, 8000), tone(5000, 24000, 0.5))
    assert np.abs(made[800:-800]).max() < 1e-3


@settings(max_examples=40, deadline=None)
@given(
    sample_rate_hz=st.sampled_from([8000, 16000, 22050, 24000, 48000]),
    speed=st.floats(0.25, 4.0),
    num_samples=st.integers(0, 6000),
)
def test_stretching_gives_the_exact_duration(
    sample_rate_hz: int, speed: float, num_samples: int
) -> None:
    stretched = whole(Stretcher(sample_rate_hz, speed), voice_like(sample_rate_hz, num_samples))
    assert len(stretched) == round(num_samples / speed)


@pytest.mark.parametrize("speed", SPEEDS)
def test_stretching_keeps_pitch_and_level(speed: float) -> None:
    source = tone(220, 24000, 2.0)
    stretched = whole(Stretcher(24000, speed), source)
    assert peak_hz(stretched, 24000) == pytest.approx(220, abs=3)
    assert np.std(stretched) == pytest.approx(np.std(source), rel=0.1)


@pytest.mark.parametrize("speed", SPEEDS)
def test_stretching_keeps_each_moment_in_its_place(speed: float) -> None:
    """A sound begins and ends where it should, to 30 ms of the source or of the result."""
    silence = np.zeros(24000, np.float32)
    source = np.concatenate([silence, tone(220, 24000, 1.0), silence])
    (heard,) = np.nonzero(np.abs(whole(Stretcher(24000, speed), source)) > 0.1)
    tolerance_s = 0.03 * max(1, 1 / speed)
    assert heard[0] / 24000 == pytest.approx(1 / speed, abs=tolerance_s)
    assert heard[-1] / 24000 == pytest.approx(2 / speed, abs=tolerance_s)


@pytest.mark.parametrize("speed", SPEEDS)
def test_stretching_keeps_the_tail(speed: float) -> None:
    stretched = whole(Stretcher(24000, speed), tone(220, 24000, 1.0))
    tail_samples = int(0.03 * max(1, 1 / speed) * 24000)
    assert np.abs(stretched[-tail_samples:]).max() > 0.25


@pytest.mark.parametrize("speed", SPEEDS)
def test_the_first_stretched_samples_leave_early(speed: float) -> None:
    num_in = 24000 // 10 if speed <= 2 else 24000 // 4
    assert len(Stretcher(24000, speed).push(voice_like(24000, num_in)))


def test_the_first_resampled_samples_leave_early() -> None:
    assert len(Resampler(24000, 48000).push(voice_like(24000, 24000 * 80 // 1000)))


def test_a_chain_is_the_identity_only_if_it_changes_nothing() -> None:
    identity = Chain(24000, 24000, 1.0)
    samples = voice_like(24000, 100)
    assert identity.is_identity
    assert identity.push(samples) is samples
    assert not Chain(24000, 24000, 1.01).is_identity
    assert not Chain(24000, 48000, 1.0).is_identity


@pytest.mark.parametrize(("target_hz", "speed"), [(16000, 1.0), (24000, 2.0), (48000, 0.5)])
def test_a_chain_changes_rate_and_speed(target_hz: int, speed: float) -> None:
    chain = Chain(24000, target_hz, speed)
    samples = whole(chain, tone(220, 24000, 1.5))
    assert len(samples) == pytest.approx(1.5 * target_hz / speed, abs=1)
    assert peak_hz(samples, target_hz) == pytest.approx(220, abs=3)


@pytest.mark.skipif(sys.platform != "linux", reason="counts threads through /proc")
def test_stretchers_start_no_threads() -> None:
    def num_threads() -> int:
        return len(list(Path("/proc/self/task").iterdir()))

    before = num_threads()
    stretchers = [Stretcher(24000, 3.0) for _ in range(8)]
    for stretcher in stretchers:
        stretcher.push(voice_like(24000, 4800))
    assert num_threads() == before
