"""Recordings of voices, as requests bring them."""

import base64
import io
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
import soundfile
from numpy.typing import NDArray

Signal: TypeAlias = NDArray[np.floating[Any]]

RATE_HZ = 24_000
TIMES_S = np.arange(5 * RATE_HZ) / RATE_HZ


def wav(duration_s: float = 1.5, seed: int = 0) -> bytes:
    """Return a file of noise at 16 kHz."""
    noise = np.random.default_rng(seed).uniform(-0.3, 0.3, round(duration_s * 16_000))
    return wav_of(noise, 16_000)


def wav_of(samples: Signal, rate_hz: int = RATE_HZ) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, rate_hz, format="WAV", subtype="PCM_16")
    return file.getvalue()


def without_voice() -> Mapping[str, Signal]:
    """Return recordings of 5 s that hold no voice, by what they hold instead."""
    random = np.random.default_rng(0)
    size, times_s = len(TIMES_S), TIMES_S
    silence = np.zeros(size)
    least = 1 / 32768
    click, burst, short = silence.copy(), silence.copy(), silence.copy()
    click[60_000] = 0.9
    burst[60_000:60_100] = random.normal(0, 0.3, 100)
    short[60_000:79_200] = random.normal(0, 0.2, 19_200)

    def hum(frequency_hz: float) -> Signal:
        parts = (np.sin(2 * np.pi * frequency_hz * k * times_s + k) / k for k in range(1, 12))
        return np.asarray(0.1 * sum(parts))

    return {
        "zeros": silence,
        "dither": np.round((random.random(size) - random.random(size)) / least * least) * least,
        "two bits": random.integers(-2, 3, size) * least,
        "offset": silence + 0.5,
        "offset and dither": silence + 0.3 + random.integers(-1, 2, size) * least,
        "a microphone's noise": random.normal(0, 0.001, size),
        "hum of 50 Hz": hum(50),
        "hum of 60 Hz": hum(60),
        "hum and noise": hum(50) + random.normal(0, 0.001, size),
        "a click": click,
        "a burst": burst,
        "short sound": short,
        "a tone": 0.3 * np.sin(2 * np.pi * 440 * times_s),
        "a quiet tone": 0.003 * np.sin(2 * np.pi * 1234 * times_s),
        "a square wave": 0.2 * np.sign(np.sin(2 * np.pi * 220 * times_s)),
        "rumble": 0.5 * np.sin(2 * np.pi * 5 * times_s),
    }


def data_uri(file: bytes) -> str:
    return f"data:audio/wav;base64,{base64.b64encode(file).decode()}"


def assert_heard_alike(one: bytes, other: bytes) -> None:
    """Assert that 16-bit samples differ by no more than a rounding."""
    first, second = (np.frombuffer(each, "<i2").astype(int) for each in (one, other))
    np.testing.assert_allclose(first, second, rtol=0, atol=1)


RECORDING = wav()
RECORDING_URI = data_uri(RECORDING)
