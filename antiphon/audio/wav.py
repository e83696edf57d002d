"""Samples as 16-bit PCM, and the RIFF header that makes a file of them."""

import struct

import numpy as np
from numpy.typing import NDArray

from antiphon.contracts.types import Samples
from antiphon.errors import EngineError

BYTES_PER_SAMPLE = 2

_UNKNOWN_SIZE = 0xFFFFFFFF
_HEADER_BYTES = 44
_RIFF_PREFIX_BYTES = 8  # "RIFF" and the size itself, which the size does not count
_FMT_BYTES = 16
_PCM_TAG = 1


def wav_header(sample_rate_hz: int, num_samples: int | None, channels: int = 1) -> bytes:
    """Return the 44 bytes before the samples of a 16-bit WAV file.

    ``num_samples`` may be ``None`` for a stream of unknown length: both sizes are then the
    largest that fit, which players take for "until the end". So it is beyond 4 GiB.
    """
    riff_bytes = data_bytes = _UNKNOWN_SIZE
    if num_samples is not None:
        exact_bytes = num_samples * channels * BYTES_PER_SAMPLE
        if exact_bytes + _HEADER_BYTES <= _UNKNOWN_SIZE:
            data_bytes = exact_bytes
            riff_bytes = exact_bytes + _HEADER_BYTES - _RIFF_PREFIX_BYTES
    frame_bytes = channels * BYTES_PER_SAMPLE
    rates = sample_rate_hz, sample_rate_hz * frame_bytes
    form = _FMT_BYTES, _PCM_TAG, channels, *rates, frame_bytes, 8 * BYTES_PER_SAMPLE
    riff = b"RIFF", riff_bytes, b"WAVE", b"fmt "
    return struct.pack("<4sI4s4sIHHIIHH4sI", *riff, *form, b"data", data_bytes)


def silence(num_samples: int, channels: int = 1) -> Samples:
    """Return zeros, shape ``[num_samples]``, or ``[num_samples, channels]`` of several channels."""
    return np.zeros(num_samples if channels == 1 else (num_samples, channels), np.float32)


def num_channels(samples: Samples) -> int:
    """Return the channels of ``[num_samples]`` (1) or ``[num_samples, channels]``."""
    return 1 if samples.ndim == 1 else samples.shape[1]


def pcm16(samples: Samples) -> bytes:
    """Return floats as 16-bit little-endian integers, channels interleaved; raises EngineError."""
    return int16(samples).astype("<i2", copy=False).tobytes()


def int16(samples: Samples) -> NDArray[np.int16]:
    """Return floats as integers of the same shape; 1.0 is 32767; raises EngineError."""
    scaled = clipped(samples) * np.float32(32767)
    np.rint(scaled, out=scaled)
    return scaled.astype(np.int16)


def clipped(samples: Samples) -> Samples:
    """Return the samples, as float32, with those beyond [-1, 1] brought back to its ends.

    Samples that are float32 and inside are returned as they are, not as a copy.

    Raises:
        EngineError: a sample is NaN or infinite. The model failed, and whatever we put in its
            place would be audible noise.
    """
    least, most = samples.min(initial=0.0), samples.max(initial=0.0)  # NaN, if there is one
    if not (np.isfinite(least) and np.isfinite(most)):
        raise EngineError("The model produced audio with samples that are not finite numbers.")
    if least >= -1.0 and most <= 1.0:
        return samples.astype(np.float32, copy=False)
    bounded: Samples = np.clip(samples, -1.0, 1.0, dtype=np.float32)
    return bounded
