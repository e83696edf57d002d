"""Small audio files in many formats, to be decoded."""

import io
from fractions import Fraction
from typing import Any

import av
import numpy as np
import soundfile
from av.audio.stream import AudioStream

from antiphon.audio.encode import open_encoder
from antiphon.contracts.types import Samples
from antiphon.formats import AudioFormat


def tone(sample_rate_hz: int, duration_s: float, frequency_hz: float = 440.0) -> Samples:
    time_s = np.arange(round(duration_s * sample_rate_hz)) / sample_rate_hz
    return (0.5 * np.sin(2 * np.pi * frequency_hz * time_s)).astype(np.float32)


def spoken(format: AudioFormat, samples: Samples, sample_rate_hz: int) -> bytes:
    """Return a file as our own encoders stream it."""
    encoder = open_encoder(format, sample_rate_hz)
    return encoder.encode(samples) + encoder.finish()


def written(samples: Any, sample_rate_hz: int, format: str, subtype: str | None = None) -> bytes:
    file = io.BytesIO()
    soundfile.write(file, samples, sample_rate_hz, format=format, subtype=subtype)
    return file.getvalue()


def muxed(container: str, codec: str, samples: Samples, sample_rate_hz: int, **tags: str) -> bytes:
    file = io.BytesIO()
    with av.open(file, "w", format=container) as output:
        output.metadata.update(tags)
        stream = output.add_stream(codec, rate=sample_rate_hz, layout="mono")
        assert isinstance(stream, AudioStream)
        frame = av.AudioFrame.from_ndarray(samples[np.newaxis], "fltp", "mono")
        frame.sample_rate = sample_rate_hz
        frame.time_base = Fraction(1, sample_rate_hz)
        frame.pts = 0
        converter = av.AudioResampler(stream.format, "mono", sample_rate_hz, stream.frame_size)
        for converted in [*converter.resample(frame), *converter.resample(None)]:
            output.mux(stream.encode(converted))
        output.mux(stream.encode(None))
    return file.getvalue()


def repeated_opus_silence(duration_s: int) -> bytes:
    """Return an Ogg file of one packet of 60 ms, again and again."""
    file = io.BytesIO()
    with av.open(file, "w", format="ogg") as output:
        stream = output.add_stream(
            "libopus", rate=48000, layout="mono", options={"frame_duration": "60"}
        )
        assert isinstance(stream, AudioStream)
        stream.codec_context.open()
        silence = np.zeros((1, stream.frame_size), np.float32)
        frame = av.AudioFrame.from_ndarray(silence, "flt", "mono")
        frame.sample_rate, frame.pts, frame.time_base = 48000, 0, Fraction(1, 48000)
        content = bytes(next(iter([*stream.encode(frame), *stream.encode(None)])))
        for number in range(duration_s * 1000 // 60):
            packet = av.Packet(content)
            packet.stream = stream
            packet.time_base = Fraction(1, 48000)
            packet.pts = packet.dts = number * 2880
            packet.duration = 2880
            output.mux(packet)
    return file.getvalue()
