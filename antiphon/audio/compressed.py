"""MP3, Opus, AAC and FLAC through PyAV, set up so that each frame leaves as soon as it is coded."""

import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from types import MappingProxyType
from typing import Any, Literal

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import OutputContainer
from numpy.typing import NDArray

from antiphon.audio.resample import Resampler
from antiphon.audio.wav import clipped, int16, silence
from antiphon.contracts.types import Samples
from antiphon.formats import AudioFormat


def _no_options() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How one format is made.

    Attributes:
        sample_format: PyAV sample format of the encoder's input: integers, or floats in its layout.
        bit_rates: Bits a second of mono, by the highest sample rate that they are for; none if
            lossless.
        min_hz: lower rates are brought to at least this one.
        frame_ms: length of a frame, where the encoder leaves it to us.
        stream_options: Options of the muxer for a file that is sent while it is made.
    """

    codec: Literal["libmp3lame", "libopus", "aac", "flac"]
    container: str
    sample_format: Literal["s16", "flt", "fltp"]
    bit_rates: tuple[tuple[int, int], ...] = ()
    min_hz: int = 0
    frame_ms: int | None = None
    codec_options: Mapping[str, str] = field(default_factory=_no_options)
    container_options: Mapping[str, str] = field(default_factory=_no_options)
    stream_options: Mapping[str, str] = field(default_factory=_no_options)

    def supported_hz(self, sample_rate_hz: int) -> int:
        """Return the lowest rate that the encoder has from ``sample_rate_hz`` up."""
        sample_rate_hz = max(sample_rate_hz, self.min_hz)
        rates_hz = av.Codec(self.codec, "w").audio_rates
        if rates_hz is None:  # it takes any
            return sample_rate_hz
        return min(rate_hz for rate_hz in rates_hz if rate_hz >= sample_rate_hz)

    def bit_rate(self, sample_rate_hz: int, channels: int) -> int:
        """Return the bits a second for a rate of `supported_hz`; 0 lets the encoder choose.

        Two channels, which have much in common, get one and a half times the bits of one.
        """
        rates = (bits for up_to_hz, bits in self.bit_rates if sample_rate_hz <= up_to_hz)
        return next(rates, 0) * (channels + 1) // 2

    def options(self, sample_rate_hz: int) -> dict[str, str]:
        if self.frame_ms is None:
            return dict(self.codec_options)
        frame_samples = sample_rate_hz * self.frame_ms // 1000
        return {**self.codec_options, "frame_size": str(frame_samples)}


RECIPES = {
    AudioFormat.MP3: Recipe(
        codec="libmp3lame",
        container="mp3",
        sample_format="fltp",
        bit_rates=((12_000, 64_000), (24_000, 96_000), (48_000, 128_000)),
        # Without the reservoir a frame never waits for its successors.
        codec_options=MappingProxyType({"reservoir": "0"}),
        container_options=MappingProxyType({"id3v2_version": "0"}),
        # The Info frame counts the frames, and the samples that were added before and after: a
        # stream has none, since it would stand first.
        stream_options=MappingProxyType({"write_xing": "0"}),
    ),
    AudioFormat.OPUS: Recipe(
        codec="libopus",
        container="ogg",
        sample_format="flt",
        bit_rates=((48_000, 64_000),),
        container_options=MappingProxyType({"page_duration": "20000"}),  # or a page is a second
    ),
    AudioFormat.AAC: Recipe(
        codec="aac",
        container="adts",
        sample_format="fltp",
        bit_rates=((48_000, 96_000),),
        # A frame is 1024 samples, and up to two of them are padding: short at 48 kHz, 85 ms at 24.
        min_hz=48_000,
    ),
    AudioFormat.FLAC: Recipe(
        codec="flac",
        container="flac",
        sample_format="s16",
        frame_ms=40,
        # The default padding, for tags to be written later, is 8 KiB before the first sound.
        container_options=MappingProxyType({"metadata_header_padding": "0"}),
    ),
}


class CompressedEncoder:
    """An `Encoder` for a recipe.

    The same samples give the same bytes, always: there is no time, version or
    random number. A stream is written as to a pipe, a whole file as to a file: the muxer then
    returns to the header at the end, to write the length.
    """

    def __init__(
        self, recipe: Recipe, sample_rate_hz: int, channels: int = 1, *, is_whole: bool
    ) -> None:
        """Open the codec and write the container's header."""
        self._recipe = recipe
        self._channels = channels
        self._rate_hz = recipe.supported_hz(sample_rate_hz)
        self._resampler: Resampler | None = None
        if self._rate_hz != sample_rate_hz:
            self._resampler = Resampler(sample_rate_hz, self._rate_hz, channels)
        self._sink = _Sink(is_seekable=is_whole)
        self._num_coded = 0
        self._output: tuple[OutputContainer, AudioStream] | None = _opened(
            recipe, self._rate_hz, channels, self._sink
        )
        self._sink.end_header()

    @property
    def header(self) -> bytes:
        return self._sink.header

    def encode(self, samples: Samples) -> bytes:
        samples = clipped(samples)
        if self._resampler is not None:
            samples = self._resampler.push(samples)
        self._code(samples)
        return self._sink.take()

    def finish(self) -> bytes:
        if self._resampler is not None:
            self._code(self._resampler.flush())
        if self._num_coded == 0:  # players refuse a file without a frame
            self._code(silence(1, self._channels))
        container, stream = self._opened_output()
        container.mux(stream.encode(None))
        self.close()
        return self._sink.take()

    def close(self) -> None:
        if self._output is not None:
            container, _ = self._output
            self._output = None
            container.close()

    def _code(self, samples: Samples) -> None:
        """Code what the codec can take; it keeps what does not fill a frame."""
        if self._num_coded == 0 and len(samples):
            with _on_one_core():
                self._code_frame(samples[:1])
            samples = samples[1:]
        if len(samples):
            self._code_frame(samples)

    def _code_frame(self, samples: Samples) -> None:
        sample_format = self._recipe.sample_format
        packed: NDArray[Any] = int16(samples) if sample_format == "s16" else samples
        packed = packed.reshape(-1, self._channels)
        is_planar = sample_format == "fltp"  # channels one after the other
        packed = np.ascontiguousarray(packed.T) if is_planar else packed.reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, sample_format, f"{self._channels}c")
        frame.sample_rate = self._rate_hz
        frame.time_base = Fraction(1, self._rate_hz)
        frame.pts = self._num_coded
        self._num_coded += len(samples)
        container, stream = self._opened_output()
        container.mux(stream.encode(frame))

    def _opened_output(self) -> tuple[OutputContainer, AudioStream]:
        assert self._output is not None, "the encoder is finished or closed"
        return self._output


class _Sink:
    """A file to ffmpeg, from which we take what it wrote.

    If it is seekable, its header may be written again when the rest has been taken.
    """

    def __init__(self, *, is_seekable: bool) -> None:
        self._is_seekable = is_seekable
        self._written = bytearray()
        self._header = bytearray()
        self._position = 0
        self._num_bytes = 0

    def end_header(self) -> None:
        """Mark what has been written by now as the header."""
        self._header[:] = self._written

    @property
    def header(self) -> bytes:
        return bytes(self._header)

    def seekable(self) -> bool:
        return self._is_seekable

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        origins = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._num_bytes}
        self._position = origins[whence] + offset
        return self._position

    def write(self, data: bytes) -> int:
        end = self._position + len(data)
        if self._position == self._num_bytes:
            self._written += data
            self._num_bytes = end
        else:
            assert end <= len(self._header), "only the header is written again"
            self._header[self._position : end] = data
        self._position = end
        return len(data)

    def take(self) -> bytes:
        taken = bytes(self._written)
        self._written.clear()
        return taken


def _opened(
    recipe: Recipe, rate_hz: int, channels: int, sink: _Sink
) -> tuple[OutputContainer, AudioStream]:
    container = av.open(
        sink,
        "w",
        format=recipe.container,
        container_options={
            "flush_packets": "1",
            "fflags": "+bitexact",
            **recipe.container_options,
            **({} if sink.seekable() else recipe.stream_options),
        },
    )
    stream = container.add_stream(
        recipe.codec,
        rate=rate_hz,
        layout=f"{channels}c",
        format=recipe.sample_format,
        bit_rate=recipe.bit_rate(rate_hz, channels),
        options=recipe.options(rate_hz),
    )
    container.start_encoding()
    return container, stream


@contextmanager
def _on_one_core() -> Iterator[None]:
    """Let ffmpeg see a single core, from this thread, for as long as this lasts.

    With its first frame, PyAV builds a filter graph for each encoder, and a graph starts a thread
    for each core that its creator may use, up to 16, all of them idle for as long as it lives.
    Hundreds of streams would be thousands of threads. PyAV has no setting for it.
    """
    if sys.platform != "linux":
        yield
        return
    cores = os.sched_getaffinity(0)
    with suppress(OSError):  # a sandbox may forbid it
        os.sched_setaffinity(0, {secrets.choice(sorted(cores))})
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setaffinity(0, cores)
