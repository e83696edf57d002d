"""Makes samples of the recordings that requests bring: loaded from where they are, and decoded."""

import hashlib
from collections.abc import Callable
from typing import Any, TypeAlias

from antiphon.audio.plain_wav import read_plain_wav
from antiphon.audio.sandbox import DecodeSandbox
from antiphon.audio.sound_check import check_sound
from antiphon.concurrency import SingleFlightLRU, Workers
from antiphon.config import ReferenceSettings
from antiphon.contracts.types import Samples
from antiphon.media.addresses import ReferenceUse
from antiphon.media.references import ReferenceLoader, inline_content, is_inline

_MAX_KEPT = 16  # of up to 3 MB each; as many of plain files as of others
_NUM_READERS = 2
"""Threads for plain files: more would take turns at one interpreter, and all be done at the end."""

_Decode: TypeAlias = Callable[..., Samples]
_Kept: TypeAlias = SingleFlightLRU[tuple[bytes, int], Samples]
"""By a content's digest and a sample rate."""


class _NotPlainError(Exception):
    """A file is left to the sandbox."""


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
        self._plain: _Kept = SingleFlightLRU(_MAX_KEPT)
        self._decoded: _Kept = SingleFlightLRU(_MAX_KEPT)

    async def start(self) -> None:
        """Start what the first recording would have to wait for."""
        await self._decoders.run(self._sandbox.start)

    async def load(self, recording: str | bytes, sample_rate_hz: int) -> Samples:
        """Return a recording's samples, read-only; raises InvalidRequestError or EngineError.

        Args:
            recording: a file's content, or a data:, http(s): or file: address of one.
        """
        if not is_inline(recording):
            recording = await self._loader.load(recording, self._use)
        samples = await self._readers.run(self._read, recording, sample_rate_hz)
        if samples is None:
            samples = await self._decoders.run(self._decode, recording, sample_rate_hz)
        return samples

    def close(self) -> None:
        """Refuse further calls, and what waits for its turn."""
        self._readers.close()
        self._decoders.close()
        self._sandbox.close()
        self._loader.close()

    def _read(self, recording: str | bytes, sample_rate_hz: int) -> "Samples | None":
        """Return the samples of what is inline, if it is a plain file that will do."""
        try:
            return self._made(self._plain, _read_plain, recording, sample_rate_hz)
        except _NotPlainError:
            return None

    def _decode(self, recording: str | bytes, sample_rate_hz: int) -> Samples:
        # Read once more, so that what waits for its turn holds no content beside its request's.
        return self._made(self._decoded, self._sandbox.decode, recording, sample_rate_hz)

    def _made(
        self, kept: _Kept, decode: _Decode, recording: str | bytes, sample_rate_hz: int
    ) -> Samples:
        content = inline_content(recording, self._use)

        def make() -> Samples:
            samples = decode(
                content,
                sample_rate_hz=sample_rate_hz,
                max_duration_s=self._settings.max_duration_s,
                min_duration_s=self._settings.min_duration_s,
            )
            check_sound(samples, sample_rate_hz, self._settings.min_duration_s)
            samples.flags.writeable = False
            return samples

        return kept.get((hashlib.sha256(content).digest(), sample_rate_hz), make)


def _read_plain(content: bytes, **limits: Any) -> Samples:
    samples = read_plain_wav(content, **limits)
    if samples is None:
        raise _NotPlainError
    return samples
