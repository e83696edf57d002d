"""Silence around a sentence has one length, and nothing audible is lost with it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.families.hibari.generator import PAUSES, level_dbfs, natural_span
from antiphon.families.hibari.vocoder import (
    FRAME_SAMPLES,
    NUM_BINS,
    AcousticFrames,
    StreamingVocoder,
)


def hiss(log_magnitudes: list[float]) -> AcousticFrames:
    """Frames of noise alone, as loud as told."""
    noise = np.tile(np.array(log_magnitudes, np.float32), (NUM_BINS, 1))
    silent = np.full_like(noise, -20)
    zero = np.zeros_like(noise)
    return AcousticFrames(silent, zero, noise, silent, zero, zero[0])


def trimmed(frames: AcousticFrames) -> AcousticFrames:
    return frames.cut(*natural_span(frames))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.integers(0, 60), st.integers(1, 30), st.integers(0, 60))
def test_silence_is_cut_or_filled_up_to_one_length(before: int, loud: int, after: int) -> None:
    frames = trimmed(hiss([-20.0] * before + [-3.0] * loud + [-20.0] * after))
    assert frames.num_frames == PAUSES.lead_frames + loud + PAUSES.pause_frames
    heard = frames.noise[0] > -10
    expected = [False] * PAUSES.lead_frames + [True] * loud + [False] * PAUSES.pause_frames
    np.testing.assert_array_equal(heard, expected)


def test_frames_without_sound_stay_as_they_are() -> None:
    silence = hiss([-20.0] * 9)
    assert natural_span(silence) == (0, silence.num_frames)


def test_a_pause_inside_stays() -> None:
    frames = trimmed(hiss([-3.0] * 5 + [-20.0] * 70 + [-3.0] * 5))
    assert frames.num_frames == PAUSES.lead_frames + 80 + PAUSES.pause_frames


@pytest.mark.parametrize("log_magnitude", [-6.0, -3.0, 0.0])
def test_the_level_is_that_of_the_audio(log_magnitude: float) -> None:
    frames = hiss([log_magnitude] * 60)
    audio = StreamingVocoder(frames, np.random.default_rng(0)).read(60)
    inside = audio[4 * FRAME_SAMPLES : -4 * FRAME_SAMPLES]
    measured_dbfs = 20 * np.log10(np.sqrt(np.mean(np.square(inside))))
    assert level_dbfs(frames)[30] == pytest.approx(measured_dbfs, abs=1.0)
