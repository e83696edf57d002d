"""The telephone's formats, read back by another implementation."""

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.audio.companding import alaw, mulaw

EVERY_SAMPLE = np.arange(-32_768, 32_768).astype("<i2")


def decoded(data: bytes, codec: str) -> NDArray[np.int64]:
    context = av.CodecContext.create(codec, "r")
    assert isinstance(context, av.AudioCodecContext)
    context.sample_rate = 8000
    context.layout = "mono"
    frames = context.decode(av.Packet(data))
    return np.concatenate([frame.to_ndarray()[0] for frame in frames]).astype(np.int64)


@pytest.mark.parametrize(
    ("encode", "codec"), [(mulaw, "pcm_mulaw"), (alaw, "pcm_alaw")], ids=["mulaw", "alaw"]
)
def test_every_sample_comes_back_within_half_a_step(encode: object, codec: str) -> None:
    assert callable(encode)
    data = encode(EVERY_SAMPLE.tobytes())
    assert len(data) == len(EVERY_SAMPLE)
    samples = EVERY_SAMPLE.astype(np.int64)
    error = np.abs(decoded(data, codec) - samples)
    assert (error <= np.maximum(np.abs(samples) / 32 + 4, 8)).mean() > 0.98
    assert error.max() <= 32_768 / 32


def test_known_codes() -> None:
    samples = np.array([0, -1, 32_767, -32_768], "<i2").tobytes()
    assert mulaw(samples) == bytes([0xFF, 0x7E, 0x80, 0x00])
    assert alaw(samples) == bytes([0xD5, 0x55, 0xAA, 0x2A])
