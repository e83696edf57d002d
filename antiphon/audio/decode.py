"""Turns the bytes of any usual audio file into samples, and stops where the limit is.

ffmpeg's parsers do the reading. They see the given bytes and nothing else: formats that refer to
other files or addresses (playlists, for one) are not among those that may be opened, and no
protocol is. What they allocate while they read a hostile file is not bounded here: files from
clients belong in `antiphon.audio.sandbox`.
"""

import io
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import av
import numpy as np
from av.audio.stream import AudioStream
from av.container import InputContainer
from numpy.typing import NDArray

from antiphon.audio.resample import Resampler
from antiphon.contracts.types import Samples
from antiphon.errors import InvalidRequestError

_FORMATS = ("wav", "aiff", "mp3", "ogg", "flac", "aac", "mov", "matroska")  # mov: MP4
_PCM = ("u8", "s16le", "s24le", "s32le", "f32le", "f64le", "s16be", "s24be", "alaw", "mulaw")
_CODECS = (
    *("mp3", "mp3float", "opus", "libopus", "vorbis", "flac", "aac", "alac"),
    *(f"pcm_{name}" for name in _PCM),
)
_OPTIONS = {
    "format_whitelist": ",".join(_FORMATS),
    "codec_whitelist": ",".join(_CODECS),  # cover pictures and video are never decoded
    "protocol_whitelist": "none",
    "max_streams": "32",
}
MIN_RATE_HZ, MAX_RATE_HZ = 8_000, 192_000
_MAX_CHANNELS = 8
PADDING_S = 0.1  # what an encoder may have added at the ends of a recording of the full length


def decode_audio(
    data: bytes, *, sample_rate_hz: int, max_duration_s: float, min_duration_s: float = 0.0
) -> Samples:
    """Decode a WAV, AIFF, MP3, Ogg, FLAC, AAC, MP4 or WebM file; takes CPU time.

    Decoding goes no further than ``max_duration_s``, however long the file plays.

    Returns:
        The first audio track, shape ``[num_samples]``: the mean of its channels, in [-1, 1].

    Raises:
        InvalidRequestError: the data is not audio, or too short, or too long.
    """
    track = _Track(sample_rate_hz, max_duration_s + PADDING_S)
    try:
        with _opened(data) as container:
            for frame in _frames(container):
                if not track.has_room_for(frame):
                    raise too_long(_told_duration(container, max_duration_s), max_duration_s)
                track.push(frame)
    except MemoryError as error:
        raise refusal("it needs too much memory") from error
    except (av.FFmpegError, EOFError) as error:
        names = "WAV, MP3, Ogg, FLAC, AAC, MP4 or WebM"
        raise refusal(f"it is not a readable {names} file") from error
    if track.duration_s < min_duration_s:
        raise too_short(float(track.duration_s), min_duration_s)
    return track.finish()


def refusal(reason: str) -> InvalidRequestError:
    return InvalidRequestError(f"Could not decode audio: {reason}.", param="ref_audio")


def too_short(duration_s: float, min_duration_s: float) -> InvalidRequestError:
    """Return the error for a recording that is shorter than the shortest."""
    return InvalidRequestError(
        f"Reference audio too short ({int(duration_s * 10) / 10}s). "
        f"At least {min_duration_s:g}s of clear speech is required.",
        param="ref_audio",
    )


def too_long(duration: str, max_duration_s: float) -> InvalidRequestError:
    """Return the error for a recording that is too long, with the longest duration."""
    return InvalidRequestError(
        f"Reference audio too long ({duration}s). "
        f"Maximum {max_duration_s:g}s supported — use a shorter clip.",
        param="ref_audio",
    )


def _opened(data: bytes) -> InputContainer:
    arguments: dict[str, Any] = {"container_options": _OPTIONS}
    if int(av.__version__.partition(".")[0]) < 19:  # later ones do this by themselves
        arguments["metadata_errors"] = "replace"  # tags are bytes from anywhere
    container: InputContainer = av.open(io.BytesIO(data), "r", **arguments)
    return container


def _frames(container: InputContainer) -> Iterator[av.AudioFrame]:
    """Yield the frames of the first audio track; damaged parts are left out."""
    if not container.streams.audio:
        raise refusal("the file has no audio track")
    stream: AudioStream = container.streams.audio[0]
    if stream.codec_context is None or stream.codec_context.name not in _CODECS:
        raise refusal("its codec is not supported")
    stream.codec_context.thread_count = 1
    is_damaged = is_heard = False
    for packet in container.demux(stream):
        try:
            frames = stream.decode(packet)
        except av.error.InvalidDataError:
            is_damaged = True
            continue
        is_heard = is_heard or bool(frames)
        yield from frames
    if is_damaged and not is_heard:
        raise refusal("no part of it is intact")


def _told_duration(container: InputContainer, max_duration_s: float) -> str:
    """Report the duration of a recording of which only the beginning was decoded."""
    declared_s = (container.duration or 0) / av.time_base
    return f"{declared_s:.1f}" if declared_s > max_duration_s else f"over {max_duration_s:g}"


class _Track:
    """Frames of any rate, sample format and number of channels in; mono at one rate out."""

    def __init__(self, sample_rate_hz: int, max_duration_s: float) -> None:
        self.duration_s = Fraction(0)
        self._rate_hz = sample_rate_hz
        self._max_duration_s = max_duration_s
        self._source_hz = sample_rate_hz
        self._resampler: Resampler | None = None
        self._pieces: list[Samples] = []

    def has_room_for(self, frame: av.AudioFrame) -> bool:
        """Whether the recording stays within its limit with this frame.

        Raises:
            InvalidRequestError: its rate or its channels are not what a recording of speech has.
        """
        if not MIN_RATE_HZ <= frame.sample_rate <= MAX_RATE_HZ:
            raise refusal(f"its sample rate of {frame.sample_rate} Hz is not supported")
        if not 1 <= frame.layout.nb_channels <= _MAX_CHANNELS:
            raise refusal(f"its {frame.layout.nb_channels} channels are not supported")
        return self.duration_s + _duration_s(frame) <= self._max_duration_s

    def push(self, frame: av.AudioFrame) -> None:
        self.duration_s += _duration_s(frame)
        if frame.sample_rate != self._source_hz:
            self._flush()
            self._source_hz = frame.sample_rate
            if self._source_hz != self._rate_hz:
                self._resampler = Resampler(self._source_hz, self._rate_hz)
        samples = _mono(frame)
        self._pieces.append(self._resampler.push(samples) if self._resampler else samples)

    def finish(self) -> Samples:
        """Return all of it; raises InvalidRequestError if a sample is NaN or infinite."""
        self._flush()
        samples = np.concatenate(self._pieces) if self._pieces else np.zeros(0, np.float32)
        if not np.isfinite(samples).all():
            raise refusal("it has samples that are not finite numbers")
        return bounded(samples)

    def _flush(self) -> None:
        if self._resampler is not None:
            self._pieces.append(self._resampler.flush())
            self._resampler = None


def _duration_s(frame: av.AudioFrame) -> Fraction:
    return Fraction(frame.samples, frame.sample_rate)


def _mono(frame: av.AudioFrame) -> Samples:
    values = frame.to_ndarray()
    if not frame.format.is_planar:
        values = values.reshape(-1, frame.layout.nb_channels).T
    return mean_of_channels(values)


def mean_of_channels(values: NDArray[Any]) -> Samples:
    """Return the mean of samples ``[num_channels, n]`` of a file, ``[n]``; full scale is 1."""
    if len(values) == 1 and values.dtype.kind != "u":  # one rounding, as below, in half the memory
        with np.errstate(all="ignore"):
            lone: Samples = values[0].astype(np.float32)
        if values.dtype.kind == "i":
            lone /= 2 ** (8 * values.itemsize - 1)
        return lone
    with np.errstate(all="ignore"):  # floats may be anything; callers check them
        mean = values.mean(axis=0, dtype=np.float64)
        if values.dtype == np.uint8:
            mean = (mean - 128) / 128
        elif values.dtype.kind == "i":
            mean /= 2 ** (8 * values.itemsize - 1)
        samples: Samples = mean.astype(np.float32)
    return samples


def bounded(samples: Samples) -> Samples:
    """Return finite samples as float32; those beyond [-1, 1] are brought back to its ends."""
    within: Samples = np.clip(samples, -1.0, 1.0, dtype=np.float32)
    return within
