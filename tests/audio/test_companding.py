"""The telephone's formats, read back by another implementation."""

import io

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from antiphon.audio.companding import Law, alaw, companded_wav_header, mulaw

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


@pytest.mark.parametrize("law", ["mulaw", "alaw"])
def test_a_file_with_its_header_is_read_by_others(law: Law) -> None:
    samples = (np.sin(np.arange(8000) / 10) * 10_000).astype("<i2")
    data = {"mulaw": mulaw, "alaw": alaw}[law](samples.tobytes())
    file = io.BytesIO(companded_wav_header(law, 16_000) + data)
    with av.open(file, "r") as container:
        stream = container.streams.audio[0]
        assert (stream.codec_context.name, stream.rate) == (f"pcm_{law}", 16_000)
        assert stream.codec_context.channels == 1
        heard = np.concatenate([frame.to_ndarray()[0] for frame in container.decode(stream)])
    assert len(heard) == len(samples)
    assert np.abs(heard.astype(int) - samples).max() < 400
