"""Turns a stream of samples into the bytes of a file, while it grows."""

from enum import StrEnum
from typing import Protocol

from antiphon.audio.compressed import AAC, FLAC, MP3, OPUS, CompressedEncoder
from antiphon.audio.wav import pcm16, wav_header
from antiphon.types import Samples


class AudioFormat(StrEnum):
    """The formats that speech can be asked for in."""

    MP3 = "mp3"
    OPUS = "opus"
    AAC = "aac"
    FLAC = "flac"
    WAV = "wav"
    PCM = "pcm"

    @property
    def media_type(self) -> str:
        """What ``Content-Type`` says."""
        return _MEDIA_TYPES[self]

    @property
    def is_compressed(self) -> bool:
        """Whether making it takes a codec, and so milliseconds rather than microseconds."""
        return self in _RECIPES


_MEDIA_TYPES = {
    AudioFormat.MP3: "audio/mpeg",
    AudioFormat.OPUS: "audio/ogg",
    AudioFormat.AAC: "audio/aac",
    AudioFormat.FLAC: "audio/flac",
    AudioFormat.WAV: "audio/wav",
    AudioFormat.PCM: "audio/pcm",
}

_RECIPES = {
    AudioFormat.MP3: MP3,
    AudioFormat.OPUS: OPUS,
    AudioFormat.AAC: AAC,
    AudioFormat.FLAC: FLAC,
}


class Encoder(Protocol):
    """One file in the making: float32 mono samples in, bytes out.

    All that `encode` and `finish` return, concatenated, is the file; it is the same however the
    samples were cut. Calls of a compressed format take CPU time, so they belong in a worker thread;
    several encoders may run in several threads, one encoder in one at a time.
    """

    def encode(self, samples: Samples) -> bytes:
        """Take ``[num_samples]``; return the bytes that are ready, possibly none.

        Raises:
            EngineError: a sample is NaN or infinite.
        """
        ...

    def finish(self) -> bytes:
        """Return the rest of the file and free the encoder."""
        ...

    def close(self) -> None:
        """Free the encoder, finished or not; may be called again."""
        ...


def open_encoder(
    format: AudioFormat, sample_rate_hz: int, *, num_samples: int | None = None
) -> Encoder:
    """Begin a file.

    Args:
        format: of the file.
        sample_rate_hz: of the samples, 8000 to 48000. Where the format has no such rate, the file
            has the next higher one that it has (for Opus 8, 12, 16, 24 or 48 kHz, for AAC 48 kHz).
        num_samples: how many will come, if known; a WAV header then tells its true length.
    """
    if format is AudioFormat.PCM:
        return PcmEncoder(header=b"")
    if format is AudioFormat.WAV:
        return PcmEncoder(header=wav_header(sample_rate_hz, num_samples))
    return CompressedEncoder(_RECIPES[format], sample_rate_hz)


class PcmEncoder:
    """An `Encoder` for 16-bit samples behind a header, which may be empty."""

    def __init__(self, header: bytes) -> None:
        self._header = header

    def encode(self, samples: Samples) -> bytes:
        """See `Encoder.encode`."""
        return self._take_header() + pcm16(samples)

    def finish(self) -> bytes:
        """See `Encoder.finish`."""
        return self._take_header()

    def close(self) -> None:
        """See `Encoder.close`."""

    def _take_header(self) -> bytes:
        header, self._header = self._header, b""
        return header
