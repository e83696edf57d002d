"""The streaming vocoder equals itself at every chunking, and hibari's own synthesis."""

from collections.abc import Sequence

import numpy as np
import pytest
from hibari import dsp
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.contracts.types import Samples
from antiphon.families.hibari.vocoder import (
    FRAME_SAMPLES,
    NUM_BINS,
    SAMPLE_RATE_HZ,
    WINDOW_SAMPLES,
    AcousticFrames,
    Floats,
    StreamingVocoder,
)

examples = settings(max_examples=40, deadline=None, derandomize=True)
# Runs of frames with one pitch; below 40 Hz there is none.
pitch_runs = st.lists(
    st.tuples(st.integers(1, 12), st.one_of(st.floats(-3, 39, width=32), st.floats(41, 500))),
    min_size=1,
    max_size=8,
)


def random_frames(pitches_hz: Sequence[float], seed: int = 0) -> AcousticFrames:
    rng = np.random.default_rng(seed)

    def bins(mean: float, spread: float) -> Floats:
        values = rng.standard_normal((NUM_BINS, len(pitches_hz)), dtype=np.float32)
        return values * np.float32(spread) + np.float32(mean)

    return AcousticFrames(
        harmonic=bins(-2, 1),
        harmonic_phase=bins(0, 1),
        noise=bins(-3, 1),
        residual=bins(-3, 1),
        residual_phase=bins(0, 3),
        f0_hz=np.array(pitches_hz, np.float32),
    )


def per_frame(runs: list[tuple[int, float]]) -> list[float]:
    return [f0_hz for num_frames, f0_hz in runs for _ in range(num_frames)]


def in_pieces(frames: AcousticFrames, sizes: Sequence[int], seed: int = 0) -> Samples:
    """Read pieces of these sizes, again and again, to the end."""
    vocoder = StreamingVocoder(frames, np.random.default_rng(seed))
    pieces: list[Samples] = []
    while vocoder.num_remaining_frames:
        remaining = vocoder.num_remaining_frames
        size = sizes[len(pieces) % len(sizes)]
        pieces.append(vocoder.read(size))
        assert len(pieces[-1]) == min(size, remaining) * FRAME_SAMPLES
    return np.concatenate(pieces)


def whole(frames: AcousticFrames, seed: int = 0) -> Samples:
    return in_pieces(frames, [frames.num_frames], seed)


class SameNoise:
    """Gives hibari the noise that we draw: it wants bins by frames, we draw frame by frame."""

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def standard_normal(self, shape: tuple[int, int], dtype: type[np.float32]) -> Floats:
        num_bins, num_values = shape
        drawn = self._rng.standard_normal((num_values // 2, 2 * num_bins), dtype=dtype)
        return np.ascontiguousarray(drawn.view(np.complex64).T).view(np.float32)


@examples
@given(pitch_runs, st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 99))
def test_any_chunking_gives_the_same_bits(
    runs: list[tuple[int, float]], sizes: list[int], seed: int
) -> None:
    frames = random_frames(per_frame(runs), seed)
    np.testing.assert_array_equal(in_pieces(frames, sizes), whole(frames))


@examples
@given(pitch_runs, st.integers(0, 99))
def test_equals_hibari_with_the_same_noise(runs: list[tuple[int, float]], seed: int) -> None:
    assert_equals_hibari(random_frames(per_frame(runs), seed))


@pytest.mark.parametrize("num_frames", range(1, 9))
def test_equals_hibari_when_shorter_than_its_windows(num_frames: int) -> None:
    frames = random_frames([180.0] * num_frames)
    assert_equals_hibari(frames)
    np.testing.assert_array_equal(in_pieces(frames, [1]), whole(frames))


def assert_equals_hibari(frames: AcousticFrames) -> None:
    expected = dsp.synth(
        frames.harmonic,
        frames.harmonic_phase,
        frames.noise,
        frames.residual,
        frames.residual_phase,
        frames.f0_hz,
        SameNoise(),
    )
    np.testing.assert_allclose(whole(frames), expected, rtol=0, atol=1e-6 * np.abs(expected).max())


def test_noise_belongs_to_the_seed_alone() -> None:
    frames = random_frames([120.0] * 10)
    np.testing.assert_array_equal(whole(frames, seed=1), whole(frames, seed=1))
    assert not np.array_equal(whole(frames, seed=1), whole(frames, seed=2))


def test_a_steady_pitch_repeats_with_its_period() -> None:
    f0_hz, num_frames = 240.0, 40
    silent = np.full((NUM_BINS, num_frames), -20, np.float32)
    zero = np.zeros_like(silent)
    amplitude = np.full_like(silent, np.log(0.01))
    pitch = np.full(num_frames, f0_hz, np.float32)
    audio = whole(AcousticFrames(amplitude, zero, silent, silent, zero, pitch))
    middle = audio[10 * FRAME_SAMPLES : 30 * FRAME_SAMPLES]
    period = round(SAMPLE_RATE_HZ / f0_hz)
    np.testing.assert_allclose(middle[period:], middle[:-period], atol=1e-6)
    num_harmonics = 11_000 // int(f0_hz)
    cosine_peak_in_spectrum = WINDOW_SAMPLES / 4
    expected_peak = 0.01 * num_harmonics / cosine_peak_in_spectrum
    assert middle.max() == pytest.approx(expected_peak, rel=0.05)


def test_reading_past_the_end_gives_nothing() -> None:
    vocoder = StreamingVocoder(random_frames([100.0] * 3), np.random.default_rng(0))
    assert len(vocoder.read(5)) == 3 * FRAME_SAMPLES
    assert vocoder.num_remaining_frames == 0
    assert len(vocoder.read(5)) == 0


def test_a_cut_outside_is_filled_with_silence() -> None:
    frames = random_frames([100.0] * 6)
    wider = frames.cut(-8, 16)
    assert wider.num_frames == 24
    audio = whole(wider)
    reach = 2 * FRAME_SAMPLES
    assert np.abs(audio[: 8 * FRAME_SAMPLES - reach]).max() < 1e-6
    assert np.abs(audio[14 * FRAME_SAMPLES + reach :]).max() < 1e-6
    assert np.abs(audio[8 * FRAME_SAMPLES : 14 * FRAME_SAMPLES]).max() > 1e-2
    np.testing.assert_array_equal(frames.cut(2, 5).noise, frames.noise[:, 2:5])
