"""Recordings of voices, as requests bring them."""

import base64
import io

import numpy as np
import soundfile


def wav(duration_s: float = 1.5, seed: int = 0) -> bytes:
    """Return a file of noise at 16 kHz."""
    noise = np.random.default_rng(seed).uniform(-0.3, 0.3, round(duration_s * 16_000))
    file = io.BytesIO()
    soundfile.write(file, noise, 16_000, format="WAV", subtype="PCM_16")
    return file.getvalue()


def data_uri(file: bytes) -> str:
    return f"data:audio/wav;base64,{base64.b64encode(file).decode()}"


def assert_heard_alike(one: bytes, other: bytes) -> None:
    """Assert that 16-bit samples differ by no more than a rounding."""
    first, second = (np.frombuffer(each, "<i2").astype(int) for each in (one, other))
    np.testing.assert_allclose(first, second, rtol=0, atol=1)


RECORDING = wav()
RECORDING_URI = data_uri(RECORDING)
