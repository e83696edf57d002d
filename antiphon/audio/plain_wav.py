"""Reads plain PCM in WAV files, which is what nearly all clients send, without a parser in C.

Nothing here allocates by what a file declares, and no byte of it is read but by NumPy: such files
need no sandbox. What is not plain, or would be refused, is left to `antiphon.audio.decode`, so that
errors are worded in one place, and both give the same samples to the bit.
"""

import struct
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.decode import MAX_RATE_HZ, MIN_RATE_HZ, PADDING_S, bounded, mean_of_channels
from antiphon.audio.resample import resampled
from antiphon.contracts.types import Samples

_RIFF = struct.Struct("<4sI4s")
_CHUNK = struct.Struct("<4sI")
_FMT = struct.Struct("<HHIIHH")
_EXTENSION = struct.Struct("<HHI16s")
_INTEGERS, _FLOATS, _EXTENSIBLE = 1, 3, 0xFFFE
_GUID_END = bytes.fromhex("000000001000800000aa00389b71")  # after the two bytes of a format's tag
_FMT_SIZES = (16, 18, 40)  # with an extension that is empty, or that of `_EXTENSIBLE`
_WIDTHS = {_INTEGERS: (16, 24, 32), _FLOATS: (32,)}  # in bits
_MAX_CHANNELS = 2
_MAX_CHUNKS = 32
# Chunks that change nothing about the samples; others mean more than is known here.
_OTHERS = (b"fact", b"LIST", b"JUNK", b"junk", b"FLLR", b"PAD ", b"PEAK", b"bext", b"iXML", b"cue ")
_UNKNOWN_SIZE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class _Format:
    """How samples are written.

    Attributes:
        tag: `_INTEGERS` or `_FLOATS`, little-endian.
        num_channels: interleaved.
    """

    tag: int
    num_channels: int
    sample_rate_hz: int
    bits: int

    @property
    def frame_bytes(self) -> int:
        """Bytes of one sample of all channels."""
        return self.num_channels * self.bits // 8


def read_plain_wav(
    data: bytes, *, sample_rate_hz: int, max_duration_s: float, min_duration_s: float = 0.0
) -> "Samples | None":
    """Return what `decode_audio` returns of a plain file; takes CPU time.

    Plain is PCM of 16, 24 or 32 bits, or float32, of one or two channels. A file may end early, as
    one does that was cut or whose writer did not know its length.

    Returns:
        The mean of the channels, float32 ``[num_samples]``, in [-1, 1]; ``None`` if the file is not
        plain, or will not do.
    """
    if (found := _found(data)) is None:
        return None
    format, content = found
    num_samples = len(content) // format.frame_bytes
    duration_s = Fraction(num_samples, format.sample_rate_hz)
    if not num_samples or not min_duration_s <= duration_s <= max_duration_s + PADDING_S:
        return None
    values = _values(content[: num_samples * format.frame_bytes], format)
    samples = mean_of_channels(values.reshape(num_samples, format.num_channels).T)
    if not np.isfinite(samples).all():
        return None
    samples = resampled(samples, format.sample_rate_hz, sample_rate_hz)
    return bounded(samples) if np.isfinite(samples).all() else None


def _found(data: bytes) -> tuple[_Format, memoryview] | None:
    """Return the format and the bytes of the samples, as far as they are there."""
    if len(data) < _RIFF.size:
        return None
    riff, _, wave = _RIFF.unpack_from(data)
    if (riff, wave) != (b"RIFF", b"WAVE"):
        return None
    format: _Format | None = None
    content: memoryview | None = None
    place, view = _RIFF.size, memoryview(data)
    for _ in range(_MAX_CHUNKS):
        if place + _CHUNK.size > len(data):
            return (format, content) if format and content is not None else None
        name, size = _CHUNK.unpack_from(data, place)
        place += _CHUNK.size
        body = view[place : place + size]
        if name == b"fmt " and format is None and content is None:
            if (format := _format(body, size)) is None:
                return None
        elif name == b"data" and format is not None and content is None:
            if not size:  # "until the end" to some writers, an empty recording to others
                return None
            content = view[place:] if size == _UNKNOWN_SIZE else body
        elif name not in _OTHERS:
            return None
        place += size + size % 2
    return None


def _format(body: memoryview, size: int) -> _Format | None:
    """Read the chunk that describes the sample format; ``None`` if it is not plain PCM."""
    if size not in _FMT_SIZES or len(body) < size:
        return None
    tag, num_channels, sample_rate_hz, bytes_a_second, frame_bytes, bits = _FMT.unpack_from(body)
    extension = bytes(body[_FMT.size : size])
    if tag == _EXTENSIBLE and len(extension) == _EXTENSION.size:
        extra_bytes, valid_bits, _, kind = _EXTENSION.unpack(extension)
        if (extra_bytes, valid_bits, kind[2:]) != (len(extension) - 2, bits, _GUID_END):
            return None
        tag = int.from_bytes(kind[:2], "little")
    elif any(extension):  # the length of what follows it: nothing
        return None
    if bits not in _WIDTHS.get(tag, ()) or not 1 <= num_channels <= _MAX_CHANNELS:
        return None
    format = _Format(tag, num_channels, sample_rate_hz, bits)
    is_consistent = (frame_bytes, bytes_a_second) == (
        format.frame_bytes,
        format.frame_bytes * sample_rate_hz,
    )
    return format if is_consistent and MIN_RATE_HZ <= sample_rate_hz <= MAX_RATE_HZ else None


def _values(content: memoryview, format: _Format) -> NDArray[Any]:
    """Return the samples as they are written; those of 24 bits are the upper ones of 32."""
    if format.tag == _FLOATS:
        return np.frombuffer(content, "<f4")
    if format.bits != 24:
        return np.frombuffer(content, f"<i{format.bits // 8}")
    packed = np.frombuffer(content, np.uint8).reshape(-1, 3)
    words = np.zeros((len(packed), 4), np.uint8)
    words[:, 1:] = packed
    return words.view("<i4")[:, 0]
