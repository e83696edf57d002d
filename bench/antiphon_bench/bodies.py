"""Readers of responses as they arrive: the amount of audio, and its first sound."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from antiphon.errors import AntiphonError
from antiphon_bench.record import Outcome

DEFAULT_SAMPLE_RATE_HZ = 24_000
SILENCE = 33
"""Samples up to this value, -60 dB of full scale, count as silence."""

BYTES_PER_SAMPLE = 2
_FILES = {b"RIFF": "WAV", b"OggS": "Ogg", b"fLaC": "FLAC", b"ID3": "MP3"}


class BodyError(AntiphonError):
    """The response is not the requested audio."""

    outcome: Outcome = "invalid"


class TruncatedError(BodyError):
    """The response ended too early."""

    outcome: Outcome = "broken"


class ToldError(BodyError):
    """The server reports, in place of audio, that it failed."""

    outcome: Outcome = "failed"


class Body(Protocol):
    """A response's body, fed as it arrives."""

    @property
    def num_samples(self) -> int:
        """Audio so far."""

    @property
    def first_sound_sample(self) -> int | None:
        """Index of the first non-silent sample, once there is one."""

    @property
    def num_tokens(self) -> int | None:
        """Number of generated frames, once the server has reported it."""

    @property
    def rate_hz(self) -> int | None:
        """Samples per second, if the body itself contains the rate."""

    def feed(self, data: bytes) -> None:
        """Take the next bytes; raises BodyError if they are wrong."""

    def end(self) -> None:
        """Take the end; raises BodyError if there should have been more, or there is no audio."""


@dataclass(slots=True)
class PcmBody:
    """16-bit little-endian samples; of several channels, one moment counts as one sample."""

    channels: int = 1
    num_samples: int = 0
    first_sound_sample: int | None = None
    num_tokens: int | None = None
    rate_hz: int | None = None
    _odd: bytes = b""
    _first: bytes = b""

    def feed(self, data: bytes) -> None:
        if len(self._first) < 4:
            self._first += data[: 4 - len(self._first)]
            self._refuse_files()
        if self._odd:
            data = self._odd + data
        num_bytes = BYTES_PER_SAMPLE * self.channels
        num_new = len(data) // num_bytes
        self._odd = data[num_new * num_bytes :]
        if self.first_sound_sample is None:
            samples = np.frombuffer(data, "<i2", num_new * self.channels).astype(np.int32)
            loud = np.abs(samples) > SILENCE
            if loud.any():
                self.first_sound_sample = self.num_samples + int(loud.argmax()) // self.channels
        self.num_samples += num_new

    def end(self) -> None:
        if self._odd:
            raise TruncatedError("The audio ends within a sample")
        if not self.num_samples:
            raise BodyError("There is no audio in the answer")

    def _refuse_files(self) -> None:
        """Refuse what begins as no samples do: their figures would be made up."""
        for head, name in _FILES.items():
            if self._first.startswith(head):
                raise BodyError(f"{name} came in the place of bare samples")
