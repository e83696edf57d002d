"""Turns a stream of samples into the bytes of a file, while it grows."""

from typing import Protocol

from antiphon.audio.compressed import RECIPES, CompressedEncoder
from antiphon.audio.wav import BYTES_PER_SAMPLE, num_channels, pcm16, wav_header
from antiphon.contracts.types import Samples
from antiphon.formats import AudioFormat

_MAX_RATE_HZ = 48_000


class Encoder(Protocol):
    """One file in the making: float32 samples in, bytes out.

    All that `encode` and `finish` return, concatenated, is the file; it is the same however the
    samples were cut. The beginning of a whole file is then replaced by `header`. Calls of a
    compressed format take CPU time, so they belong in a worker thread; several encoders may run in
    several threads, one encoder in one at a time.
    """

    @property
    def header(self) -> bytes:
        """How the file begins, once it is finished: of a whole file, with its true length.

        It replaces as many bytes of what was returned first, all of them in the first piece that
        is not empty. Formats without a length in their header, or without a header, may have none.
        """

    def encode(self, samples: Samples) -> bytes:
        """Take the next samples; return the bytes that are ready, if any; raises EngineError."""

    def finish(self) -> bytes:
        """Return the rest of the file and free the encoder."""

    def close(self) -> None:
        """Free the encoder, finished or not; may be called again."""


def open_encoder(
    format: AudioFormat, sample_rate_hz: int, channels: int = 1, *, is_whole: bool = False
) -> Encoder:
    """Begin a file.

    Args:
        sample_rate_hz: Sample rate, 8000 to 48000. Where the format has no such rate, the file
            has the next higher one that it has (for Opus 8, 12, 16, 24 or 48 kHz, for AAC 48 kHz).
        channels: 1, samples of shape ``[num_samples]``, or 2, ``[num_samples, 2]``.
        is_whole: nothing is read before the end, and then `Encoder.header` is put in its place.
            Otherwise the header marks the length as unknown, as each format does.
    """
    if format is AudioFormat.PCM:
        return PcmEncoder()
    if format is AudioFormat.WAV:
        return WavEncoder(sample_rate_hz, channels, is_whole=is_whole)
    return CompressedEncoder(RECIPES[format], sample_rate_hz, channels, is_whole=is_whole)


def max_bytes_per_s(format: AudioFormat, sample_rate_hz: int, channels: int = 1) -> int:
    """Return how many bytes of a file a second of audio takes at most."""
    bit_rate = RECIPES[format].bit_rate(_MAX_RATE_HZ, channels) if format in RECIPES else 0
    return bit_rate // 8 or sample_rate_hz * channels * BYTES_PER_SAMPLE


def whole_file(format: AudioFormat, sample_rate_hz: int, samples: Samples) -> bytes:
    """Return samples as a file; arguments as of `open_encoder`; raises EngineError."""
    encoder = open_encoder(format, sample_rate_hz, num_channels(samples), is_whole=True)
    try:
        pieces = [encoder.encode(samples) + encoder.finish()]
    finally:
        encoder.close()
    return b"".join(with_header(pieces, encoder.header))


def with_header(pieces: list[bytes], header: bytes) -> list[bytes]:
    """Return the pieces of a file, none of them empty, with its `Encoder.header` in its place."""
    if not header:
        return pieces
    first, *others = pieces
    assert len(first) >= len(header), "a header comes in one piece"
    return [header + first[len(header) :], *others]


class PcmEncoder:
    """An `Encoder` for 16-bit samples without a header."""

    header = b""

    def encode(self, samples: Samples) -> bytes:
        return pcm16(samples)

    def finish(self) -> bytes:
        return b""

    def close(self) -> None:
        pass


class WavEncoder:
    """An `Encoder` for 16-bit samples behind a RIFF header."""

    def __init__(self, sample_rate_hz: int, channels: int, *, is_whole: bool) -> None:
        self._sample_rate_hz = sample_rate_hz
        self._channels = channels
        self._is_whole = is_whole
        self._num_samples = 0
        self._has_begun = False

    @property
    def header(self) -> bytes:
        num_samples = self._num_samples if self._is_whole else None
        return wav_header(self._sample_rate_hz, num_samples, self._channels)

    def encode(self, samples: Samples) -> bytes:
        data = pcm16(samples)
        beginning = self.finish()
        self._num_samples += len(samples)
        return beginning + data

    def finish(self) -> bytes:
        """Return the header, once; a whole file's is not right before the end."""
        has_begun, self._has_begun = self._has_begun, True
        return b"" if has_begun else self.header

    def close(self) -> None:
        pass
