"""Makes samples of the recordings that requests bring: loaded from where they are, and decoded."""

import hashlib

from antiphon.audio.sandbox import DecodeSandbox
from antiphon.concurrency import Workers
from antiphon.config import ReferenceSettings
from antiphon.media.addresses import ReferenceUse
from antiphon.media.references import ReferenceLoader, inline_content, is_inline
from antiphon.storage.single_flight_lru import SingleFlightLRU
from antiphon.types import Samples

_MAX_KEPT = 16  # of up to 3 MB each


class Recordings:
    """Loads and decodes. A recording that comes again is not decoded again."""

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
        self._workers = Workers("recordings")
        self._recent: SingleFlightLRU[tuple[bytes, int], Samples] = SingleFlightLRU(_MAX_KEPT)

    async def start(self) -> None:
        """Start what the first recording would have to wait for."""
        await self._workers.run(self._sandbox.start)

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
        if is_inline(recording):  # one turn of a thread for all of it
            return await self._workers.run(self._decoded_inline, recording, sample_rate_hz)
        content = await self._loader.load(recording, self._use)
        return await self._workers.run(self._decoded, content, sample_rate_hz)

    def close(self) -> None:
        """Refuse further calls."""
        self._workers.close()
        self._sandbox.close()
        self._loader.close()

    def _decoded_inline(self, recording: str | bytes, sample_rate_hz: int) -> Samples:
        return self._decoded(inline_content(recording, self._use), sample_rate_hz)

    def _decoded(self, data: bytes, sample_rate_hz: int) -> Samples:
        key = (hashlib.sha256(data).digest(), sample_rate_hz)
        return self._recent.get(key, lambda: self._decode(data, sample_rate_hz))

    def _decode(self, data: bytes, sample_rate_hz: int) -> Samples:
        samples = self._sandbox.decode(
            data,
            sample_rate_hz=sample_rate_hz,
            max_duration_s=self._settings.max_duration_s,
            min_duration_s=self._settings.min_duration_s,
        )
        samples.flags.writeable = False
        return samples
