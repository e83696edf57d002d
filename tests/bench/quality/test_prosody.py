"""Pulses of known pitch, and bursts of known pace, are measured as what they are."""

import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon_bench.quality.prosody import pitch_track, prosody_of, slope_per_min, syllable_rate

RATE_HZ = 16_000


def voice(pitch_hz: NDArray[np.float64], syllables_per_s: float) -> NDArray[np.float64]:
    """Return pulses of a changing pitch, louder and quieter so many times a second."""
    phase = np.cumsum(pitch_hz / RATE_HZ)
    pulses = sum(np.sin(2 * np.pi * number * phase) / number for number in range(1, 9))
    time_s = np.arange(len(pitch_hz)) / RATE_HZ
    return np.asarray(0.2 * pulses * (1 - np.cos(2 * np.pi * syllables_per_s * time_s)) / 2)


@pytest.mark.parametrize("pitch_hz", [80.0, 131.0, 220.0, 330.0])
def test_a_pitch_is_found(pitch_hz: float) -> None:
    track = pitch_track(voice(np.full(RATE_HZ, pitch_hz), 4), RATE_HZ)
    voiced = track[track > 0]
    assert len(voiced) > 50
    assert np.median(voiced) == pytest.approx(pitch_hz, rel=0.01)


def test_noise_and_silence_have_no_pitch() -> None:
    noise = np.random.default_rng(0).normal(0, 0.1, RATE_HZ)
    assert (pitch_track(noise, RATE_HZ) > 0).mean() < 0.05
    assert not pitch_track(np.zeros(RATE_HZ), RATE_HZ).any()
    assert prosody_of(np.zeros(RATE_HZ), RATE_HZ).pitch_hz is None


@pytest.mark.parametrize("syllables_per_s", [3.0, 5.0, 7.0])
def test_a_pace_is_found(syllables_per_s: float) -> None:
    signal = voice(np.full(4 * RATE_HZ, 150.0), syllables_per_s)
    loud = syllable_rate(signal, RATE_HZ)
    paused = syllable_rate(np.concatenate([signal, np.zeros(4 * RATE_HZ)]), RATE_HZ)
    assert loud == pytest.approx(paused, rel=0.05), "pauses do not count"
    # Between syllables there is no sound, so that it is made of less than all time.
    assert syllables_per_s * 0.9 < loud < syllables_per_s * 1.6


def test_a_drift_of_pitch_is_found() -> None:
    minutes = np.arange(30 * RATE_HZ) / RATE_HZ / 60
    drifting = prosody_of(voice(150 * 2 ** (4 * minutes / 12), 4), RATE_HZ)
    assert drifting.pitch_drift_semitones_per_min == pytest.approx(4, abs=0.3)
    assert drifting.pitch_drift_error is not None
    assert drifting.pitch_drift_error < 0.3
    assert drifting.pace_drift_percent_per_min == pytest.approx(0, abs=5)


def test_a_drift_of_pace_is_found() -> None:
    parts = [voice(np.full(5 * RATE_HZ, 150.0), pace) for pace in (4.0, 4.4, 4.8, 5.2, 5.6)]
    found = prosody_of(np.concatenate(parts), RATE_HZ)
    # 0.4 more every 5 s, of 4.8 on average.
    assert found.pace_drift_percent_per_min == pytest.approx(100, rel=0.2)
    assert found.pitch_drift_semitones_per_min == pytest.approx(0, abs=0.3)


def test_a_slope_has_its_textbook_error() -> None:
    assert slope_per_min([1.0, 2.0, None]) == (None, None)
    slope, error = slope_per_min([0.0, 1.0, 2.0, 3.0])
    assert slope == pytest.approx(12)
    assert error == pytest.approx(0, abs=1e-9)
    slope, error = slope_per_min([0.0, 1.0, 1.0, 0.0])
    assert slope == pytest.approx(0, abs=1e-9)
    assert error == pytest.approx((1 / 2 / (5 * (5 / 60) ** 2)) ** 0.5)
