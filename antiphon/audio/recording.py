"""A recording as users have it (a file, its bytes, or samples) becomes samples at one rate."""

from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from antiphon.audio.decode import (
    MAX_RATE_HZ,
    MIN_RATE_HZ,
    decode_audio,
    refusal,
    too_long,
    too_short,
)
from antiphon.audio.resample import resampled
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError

Recording: TypeAlias = str | PathLike[str] | bytes | tuple[NDArray[Any], int]
"""A file's path, its content, or samples (``[num_samples]`` or ``[num_samples, num_channels]``,
floats in [-1, 1] or integers) and their rate in Hz."""


def read_recording(
    recording: Recording,
    *,
    sample_rate_hz: int,
    max_duration_s: float,
    min_duration_s: float = 0.0,
) -> Samples:
    """Return samples, mono; takes CPU time. Files are trusted: they are the user's own.

    Args:
        recording: read, decoded and resampled as far as that is needed.

    Raises:
        InvalidRequestError: it cannot be read, or is no audio, too short or too long.
    """
    if isinstance(recording, tuple):
        samples, source_hz = recording
        if not MIN_RATE_HZ <= source_hz <= MAX_RATE_HZ:
            raise refusal(f"its sample rate of {source_hz} Hz is not supported")
        mono = _mono(samples)
        duration_s = len(mono) / source_hz
        if duration_s < min_duration_s:
            raise too_short(duration_s, min_duration_s)
        if duration_s > max_duration_s:
            raise too_long(f"{duration_s:.1f}", max_duration_s)
        return resampled(mono, source_hz, sample_rate_hz)
    data = recording if isinstance(recording, bytes) else file_content(Path(recording))
    return decode_audio(
        data,
        sample_rate_hz=sample_rate_hz,
        max_duration_s=max_duration_s,
        min_duration_s=min_duration_s,
    )


def file_content(path: Path) -> bytes:
    """Return what is in a user's own file; raises InvalidRequestError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidRequestError(
            f"Could not read {path}: {error.strerror or error}.", param="ref_audio"
        ) from error
    except ValueError as error:  # half a surrogate pair, or a zero byte
        raise InvalidRequestError(
            f"Could not read {str(path)!a}: that is no path.", param="ref_audio"
        ) from error


def _mono(samples: NDArray[Any]) -> Samples:
    kind = samples.dtype.kind
    if samples.ndim not in (1, 2) or kind not in "fi" or not samples.size:
        raise refusal(
            f"an array of shape {list(samples.shape)} of {samples.dtype} does not hold samples"
        )
    mean = samples.astype(np.float64)
    mean = mean.mean(axis=1) if mean.ndim == 2 else mean
    if kind == "i":
        mean /= 2 ** (8 * samples.itemsize - 1)
    if not np.isfinite(mean).all():
        raise refusal("it has samples that are not finite numbers")
    return np.clip(mean, -1.0, 1.0).astype(np.float32)
