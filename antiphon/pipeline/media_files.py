"""The files that a server keeps for clients, for its coroutines; what is too old is swept away."""

import asyncio
import logging

from antiphon.concurrency import Workers
from antiphon.config import Settings
from antiphon.contracts.types import Caller
from antiphon.storage.blobs import BlobStore
from antiphon.storage.errors import StorageError
from antiphon.storage.media import MediaLimits, MediaStore

logger = logging.getLogger(__name__)

FOLDER = "outputs"
SWEEP_S = 300.0
_NUM_THREADS = 2


class MediaFiles:
    """Keeps files in worker threads.

    Attributes:
        store: Store of the files; blocks, see `workers`.
        workers: threads for whatever blocks here.
    """

    def __init__(self, store: MediaStore, retention_s: float = 0.0) -> None:
        """Keep files in a store, of which some become too old in any ``retention_s``."""
        self.store = store
        self.workers = Workers("media", _NUM_THREADS)
        self._period_s = min(SWEEP_S, retention_s / 4) if retention_s else SWEEP_S

    @classmethod
    def of(cls, settings: Settings) -> "MediaFiles":
        """Open the store of the settings; raises SettingsError."""
        media = settings.media
        limits = MediaLimits(
            http_url=media.output_http_url,
            signed_url_s=media.signed_url_s,
            retention_s=media.retention_s,
            max_bytes=int(media.max_gib * 2**30),
            min_free_bytes=settings.data.min_free_mib * 2**20,
        )
        place = media.output_fs_url or settings.data.folder / FOLDER
        return cls(MediaStore(BlobStore(place, "media.output_fs_url"), limits), media.retention_s)

    async def keep(self, content: bytes, suffix: str, caller: Caller, media_url: str) -> str:
        """Keep a file, and return its address; raises StorageFullError or StorageError.

        Args:
            suffix: one of `MEDIA_TYPES`.
            media_url: Address of the server's media route at the client, with ``/`` at its end.
        """
        key = await self.workers.run(self.store.put, content, suffix, caller.owner)
        return await self.workers.run(self.store.url, key, media_url)

    async def sweep_for_ever(self) -> None:
        """Delete what is too old, now and again."""
        while True:
            try:
                await self.workers.run(self.store.sweep)
            except StorageError as error:
                logger.warning("old media files could not be deleted: %s", error.message)
            await asyncio.sleep(self._period_s)

    def close(self) -> None:
        """Refuse further calls."""
        self.workers.close()
