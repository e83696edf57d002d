"""A static gain and a limiter: loud as asked, below the peak limit, and independent of cuts."""

import numpy as np
import pytest

from antiphon.audio.loudness import Limiter
from antiphon.contracts.types import Samples
from tests.audio.ebur128 import loudness_of

RATE_HZ = 24000


def noise(seconds: float, level: float, channels: int = 1) -> Samples:
    """Return bursts of noise, as loud and quiet as syllables."""
    rng = np.random.default_rng(1)
    num_samples = int(seconds * RATE_HZ)
    made = rng.standard_normal((num_samples, channels)) * level
    made *= (1 + np.sin(np.arange(num_samples) / RATE_HZ * 25))[:, np.newaxis]
    return made.astype(np.float32) if channels > 1 else made[:, 0].astype(np.float32)


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("cut", [1, 7, 255, 256, 257, 4096])
def test_cuts_change_no_bit(cut: int, channels: int) -> None:
    samples = noise(0.4, 0.3, channels)
    whole = Limiter(12.0, RATE_HZ, channels).push(samples)
    limiter = Limiter(12.0, RATE_HZ, channels)
    pieces = [limiter.push(samples[at : at + cut]) for at in range(0, len(samples), cut)]
    pieces.append(limiter.flush())
    assert np.array_equal(np.concatenate(pieces), whole)
    assert whole.dtype == np.float32


def test_quiet_audio_gets_the_gain_and_nothing_else() -> None:
    samples = noise(1.0, 0.01)
    raised = Limiter(6.0, RATE_HZ).push(samples)
    assert np.allclose(raised, samples * 10 ** (6 / 20), rtol=1e-6)


@pytest.mark.parametrize("gain_db", [0.0, 10.0, 30.0])
@pytest.mark.parametrize("pitch_hz", [100, 997, 5000, 11000])
def test_true_peaks_stay_below_the_limit(gain_db: float, pitch_hz: int) -> None:
    times = np.arange(RATE_HZ * 2) / RATE_HZ
    tone = np.sin(2 * np.pi * pitch_hz * times + 0.3).astype(np.float32)
    for samples in (tone, noise(2.0, 0.2)):
        _, peak_dbtp = loudness_of(Limiter(gain_db, RATE_HZ).push(samples), RATE_HZ)
        assert peak_dbtp <= -1.0


def test_a_peak_lowers_the_gain_for_a_while() -> None:
    samples = np.full(RATE_HZ, 0.1, np.float32)
    samples[1000] = 0.9
    limited = Limiter(6.0, RATE_HZ).push(samples)
    assert limited[999] == pytest.approx(0.1 * 10**0.3, rel=1e-2)
    assert abs(limited[1000]) <= 10 ** (-1.5 / 20)
    assert limited[1001] < limited[4000] < limited[-1] == pytest.approx(0.1 * 10**0.3, rel=1e-2)
