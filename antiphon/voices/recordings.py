"""Makes samples of the recordings that requests bring: loaded from where they are, and decoded."""

import hashlib
from dataclasses import dataclass

from antiphon.audio.plain_wav import read_plain_wav
from antiphon.audio.sandbox import DecodeSandbox
from antiphon.concurrency import Workers
from antiphon.config import ReferenceSettings
from antiphon.media.addresses import ReferenceUse
from antiphon.media.references import ReferenceLoader, inline_content, is_inline
from antiphon.storage.single_flight_lru import SingleFlightLRU
from antiphon.types import Samples

_MAX_KEPT = 16  # of up to 3 MB each; as many of plain files as of others
_NUM_READERS = 2
"""Threads for plain files: more would take turns at one interpreter, and all be done at the end."""

_Key = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class _File:
    """What a recording's address stood for.

    Attributes:
        content: of the file.
        digest: of the content.
        sample_rate_hz: wanted of its samples.
    """

    content: bytes
    digest: bytes
    sample_rate_hz: int

    @property
    def key(self) -> _Key:
        """What its samples are kept by."""
        return self.digest, self.sample_rate_hz


class Recordings:
    """Loads and decodes. A recording that comes again is not decoded again.

    Plain WAV files, which most are, are read in order of arrival by few threads, so that voices are
    made of the first ones meanwhile. Each other file is decoded by a process of its own, as many at
    once as there are cores.
    """

    def __init__(self, settings: ReferenceSettings, loader: ReferenceLoader | None = None) -> None:
        """Prepare to load; ``loader`` defaults to one with the same settings."""
        self._settings = settings
        self._use = ReferenceUse(
            title="reference audio",
            param="ref_audio",
            accept="audio/*, video/*, application/octet-stream",
            max_bytes=settings.max_bytes,
        )
        self._loader = loader or ReferenceLoader(settings)
        self._sandbox = DecodeSandbox()
        self._readers = Workers("plain-recordings", _NUM_READERS)
        self._decoders = Workers("recordings")
        self._plain: SingleFlightLRU[_Key, Samples | None] = SingleFlightLRU(_MAX_KEPT)
        self._decoded: SingleFlightLRU[_Key, Samples] = SingleFlightLRU(_MAX_KEPT)

    async def start(self) -> None:
        """Start what the first recording would have to wait for."""
        await self._decoders.run(self._sandbox.start)

    async def load(self, recording: str | bytes, sample_rate_hz: int) -> Samples:
        """Return a recording's samples, read-only.

        Args:
            recording: a file's content, or a data:, http(s): or file: address of one.
            sample_rate_hz: of the result.

        Raises:
            InvalidRequestError: it may not be loaded, or cannot be, or is no audio, or too long,
                too short or too large.
            EngineError: no process could be started to decode it.
        """
        if not is_inline(recording):
            recording = await self._loader.load(recording, self._use)
        file, samples = await self._readers.run(self._read, recording, sample_rate_hz)
        if samples is None:
            samples = await self._decoders.run(self._decode, file)
        return samples

    def close(self) -> None:
        """Refuse further calls."""
        self._readers.close()
        self._decoders.close()
        self._sandbox.close()
        self._loader.close()

    def _read(self, recording: str | bytes, sample_rate_hz: int) -> "tuple[_File, Samples | None]":
        """Return what is inline, and its samples if it is a plain file that will do."""
        content = inline_content(recording, self._use)
        file = _File(content, hashlib.sha256(content).digest(), sample_rate_hz)
        return file, self._plain.get(file.key, lambda: self._plain_samples(file))

    def _plain_samples(self, file: _File) -> "Samples | None":
        samples = read_plain_wav(
            file.content,
            sample_rate_hz=file.sample_rate_hz,
            max_duration_s=self._settings.max_duration_s,
            min_duration_s=self._settings.min_duration_s,
        )
        return None if samples is None else _read_only(samples)

    def _decode(self, file: _File) -> Samples:
        return self._decoded.get(file.key, lambda: self._decoded_samples(file))

    def _decoded_samples(self, file: _File) -> Samples:
        samples = self._sandbox.decode(
            file.content,
            sample_rate_hz=file.sample_rate_hz,
            max_duration_s=self._settings.max_duration_s,
            min_duration_s=self._settings.min_duration_s,
        )
        return _read_only(samples)


def _read_only(samples: Samples) -> Samples:
    samples.flags.writeable = False
    return samples
