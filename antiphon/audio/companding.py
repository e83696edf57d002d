"""The telephone's 8-bit formats of ITU-T G.711, each a table over all 16-bit samples."""

import struct
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

Law: TypeAlias = Literal["mulaw", "alaw"]

_WAV_TAGS: dict[Law, int] = {"alaw": 6, "mulaw": 7}
_UNKNOWN_SIZE = 0xFFFFFFFF
_MU_BIAS = 33
_MU_CLIP = 8158
"""Both for samples of 14 bits, as the standard has them."""


def mulaw(pcm: bytes) -> bytes:
    """Turn 16-bit little-endian samples into mu-law, one byte each."""
    return _looked_up(pcm, _mulaw_table())


def alaw(pcm: bytes) -> bytes:
    """Turn 16-bit little-endian samples into A-law, one byte each."""
    return _looked_up(pcm, _alaw_table())


def companded_wav_header(law: Law, sample_rate_hz: int) -> bytes:
    """Return the 58 bytes before the samples of a mono WAV file in one of these formats.

    Its length is unknown: the sizes are the largest that fit, as those of
    `antiphon.audio.wav.wav_header` are.
    """
    return struct.pack(
        "<4sI4s4sIHHIIHHH4sII4sI",
        b"RIFF",
        _UNKNOWN_SIZE,
        b"WAVE",
        b"fmt ",
        18,  # of the next eight fields
        _WAV_TAGS[law],
        1,  # channels
        sample_rate_hz,
        sample_rate_hz,  # bytes a second
        1,  # bytes a sample
        8,  # bits a sample
        0,  # no extension
        b"fact",  # formats other than PCM have it
        4,
        _UNKNOWN_SIZE,
        b"data",
        _UNKNOWN_SIZE,
    )


def _looked_up(pcm: bytes, table: NDArray[np.uint8]) -> bytes:
    looked_up: NDArray[np.uint8] = table[np.frombuffer(pcm, "<u2")]
    return looked_up.tobytes()


def _all_samples() -> NDArray[np.int64]:
    """Return every sample, in the order of its bits read as an unsigned number."""
    return np.arange(65_536, dtype=np.uint16).view(np.int16).astype(np.int64)


def _segment(magnitude: NDArray[np.int64], num_bits: int) -> NDArray[np.int64]:
    """Return how many bits a number has beyond ``num_bits``."""
    return np.maximum(
        np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int64) - num_bits + 1, 0
    )


@cache
def _mulaw_table() -> NDArray[np.uint8]:
    samples = _all_samples() >> 2
    magnitude = np.minimum(np.abs(samples), _MU_CLIP) + _MU_BIAS
    segment = _segment(magnitude, 6)
    code = (segment << 4) | ((magnitude >> (segment + 1)) & 0x0F)
    return np.asarray(~(code | np.where(samples < 0, 0x80, 0)) & 0xFF, np.uint8)


@cache
def _alaw_table() -> NDArray[np.uint8]:
    samples = _all_samples()
    magnitude = np.where(samples < 0, -samples - 1, samples)
    segment = _segment(magnitude, 8)
    mantissa = (magnitude >> (np.maximum(segment, 1) + 3)) & 0x0F
    code = (segment << 4) | mantissa
    return np.asarray(code ^ np.where(samples < 0, 0x55, 0xD5), np.uint8)
