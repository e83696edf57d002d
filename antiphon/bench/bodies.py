"""Reads responses as they arrive: how much audio is in them, and where its first sound is."""

import base64
import json
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

DEFAULT_SAMPLE_RATE_HZ = 24_000
SILENCE = 33
"""Samples up to this value, -60 dB of full scale, count as silence."""

_BYTES_PER_SAMPLE = 2
_LONGEST_WAV_HEADER = 4096


class Body(Protocol):
    """A response's body, fed as it arrives."""

    @property
    def num_samples(self) -> int:
        """Audio so far."""
        ...

    @property
    def first_sound_sample(self) -> int | None:
        """Number of the first sample that is not silence, once there is one."""
        ...

    @property
    def num_tokens(self) -> int | None:
        """Frames made, once the server has said so."""
        ...

    def feed(self, data: bytes) -> None:
        """Take the next bytes."""
        ...


@dataclass(slots=True)
class PcmBody:
    """16-bit little-endian samples; of several channels, one moment counts as one sample."""

    channels: int = 1
    num_samples: int = 0
    first_sound_sample: int | None = None
    num_tokens: int | None = None
    _odd: bytes = b""

    def feed(self, data: bytes) -> None:
        if self._odd:
            data = self._odd + data
        num_bytes = _BYTES_PER_SAMPLE * self.channels
        num_new = len(data) // num_bytes
        self._odd = data[num_new * num_bytes :]
        if self.first_sound_sample is None:
            samples = np.frombuffer(data, "<i2", num_new * self.channels).astype(np.int32)
            loud = np.abs(samples) > SILENCE
            if loud.any():
                self.first_sound_sample = self.num_samples + int(loud.argmax()) // self.channels
        self.num_samples += num_new


@dataclass(slots=True)
class WavBody(PcmBody):
    """The same behind a RIFF header."""

    _head: bytes | None = b""

    def feed(self, data: bytes) -> None:
        if self._head is None:
            PcmBody.feed(self, data)
            return
        self._head += data
        data_chunk = self._head.find(b"data")
        if data_chunk < 0 or len(self._head) < data_chunk + 8:
            assert len(self._head) < _LONGEST_WAV_HEADER, "no WAV file"
            return
        samples, self._head = self._head[data_chunk + 8 :], None
        PcmBody.feed(self, samples)


@dataclass(slots=True)
class EventBody:
    """Server-sent events that carry audio in base64, and the usage at their end."""

    audio: PcmBody
    num_tokens: int | None = None
    _rest: bytearray = field(default_factory=bytearray)

    @property
    def num_samples(self) -> int:
        return self.audio.num_samples

    @property
    def first_sound_sample(self) -> int | None:
        return self.audio.first_sound_sample

    def feed(self, data: bytes) -> None:
        self._rest += data
        *lines, rest = self._rest.split(b"\n")
        self._rest = rest
        for line in lines:
            if line.startswith(b"data: {"):
                self._take(json.loads(line.removeprefix(b"data: ")))

    def _take(self, event: dict[str, object]) -> None:
        if isinstance(audio := event.get("audio"), str):
            self.audio.feed(base64.b64decode(audio))
        usage = event.get("usage")
        if isinstance(usage, dict) and isinstance(made := usage.get("output_tokens"), int):
            self.num_tokens = made


def open_body(response_format: str, media_type: str, channels: int = 1) -> Body:
    """Return the reader of a response in ``"pcm"`` or ``"wav"``."""
    audio = (WavBody if response_format == "wav" else PcmBody)(channels)
    return EventBody(audio) if media_type.startswith("text/event-stream") else audio
