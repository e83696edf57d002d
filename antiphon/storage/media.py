"""Images, videos and audio that are kept for clients with their address, until they are too old.

A file's name holds all of its metadata: creation time, owner, and a random
number that cannot be guessed. So it needs no database, and any number of servers share a store.
"""

import hashlib
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from antiphon.contracts.types import Caller
from antiphon.errors import SettingsError
from antiphon.formats import AudioFormat
from antiphon.storage.blobs import BlobStore
from antiphon.storage.disk_reserve import check_free
from antiphon.storage.errors import StorageFullError, UnknownMediaError
from antiphon.storage.faults import storage_faults

MEDIA_TYPES = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "webp": "image/webp",
    "mp4": "video/mp4",
    **{str(format): format.media_type for format in AudioFormat},
}
"""Of files by their suffix."""

_NAME = re.compile(
    r"(?P<made_ms>[0-9a-f]{12})-(?P<owner>[0-9a-f]{16})-[0-9a-f]{32}\.(?P<suffix>\w{2,5})"
)
_KEY = re.compile(rf"\d{{4}}-\d{{2}}-\d{{2}}/{_NAME.pattern}", re.ASCII)
_UNFINISHED_S = 3600.0
"""What is not finished after so long will never be."""
_COUNTED_S = 5.0
"""For how long a count of what is kept is believed: other servers may store in the same place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaLimits:
    """What is kept, and how it is reached.

    Attributes:
        http_url: address of the place for clients; ``None``: they ask the server.
        signed_url_s: Lifetime of addresses signed by the storage; 0: none is signed.
        retention_s: Age after which files are deleted; 0: never.
        max_bytes: Size of all files; 0: the free space.
        min_free_bytes: Free space to keep, on a local disk.
    """

    http_url: str | None = None
    signed_url_s: int = 0
    retention_s: float = 0.0
    max_bytes: int = 0
    min_free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class KeptMedia:
    num_bytes: int
    media_type: str


class MediaStore:
    """Keeps files by keys that encode creation time and owner; blocks, so it belongs in
    worker threads.
    """

    def __init__(
        self,
        blobs: BlobStore,
        limits: MediaLimits,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Keep files in ``blobs``, which belong to this store alone; raises SettingsError."""
        if limits.signed_url_s and not blobs.can_sign:
            raise SettingsError(
                "media.signed_url_s: this storage signs no addresses; object stores such as s3 do."
            )
        self._blobs = blobs
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._num_bytes = 0
        self._counted_s = -_COUNTED_S

    def put(self, content: bytes, suffix: str, owner: str | None) -> str:
        """Keep a file, and return its key; it is there at once and whole, or not at all.

        Args:
            suffix: one of `MEDIA_TYPES`.
            owner: Owner's id; ``None``: any caller without an owner.

        Raises:
            StorageFullError: there is no room for it.
            StorageError: it could not be written.
        """
        key = self._new_key(suffix, owner)
        with storage_faults():
            self._check_room(len(content))
            self._blobs.put(key, content)
        self._count(len(content))
        return key

    def url(self, key: str, server_url: str) -> str:
        """Return an address of a file for clients; raises StorageError.

        Args:
            server_url: Address of the server's media route at the client, with ``/`` at its end.
        """
        if self._limits.signed_url_s:
            with storage_faults():
                return self._blobs.signed_url(key, self._limits.signed_url_s)
        base = self._limits.http_url
        return f"{server_url if base is None else base.rstrip('/') + '/'}{key}"

    def find(self, key: str, caller: Caller) -> KeptMedia:
        """Return what there is under a key; raises UnknownMediaError or StorageError."""
        named = _KEY.fullmatch(key)
        if named is None or named["suffix"] not in MEDIA_TYPES:
            raise UnknownMediaError(key)
        if not (caller.is_admin or named["owner"] == _owner_tag(caller.owner)):
            raise UnknownMediaError(key)
        with storage_faults():
            num_bytes = self._blobs.num_bytes(key)
        if num_bytes is None:
            raise UnknownMediaError(key)
        return KeptMedia(num_bytes, MEDIA_TYPES[named["suffix"]])

    def read(self, key: str, start: int, stop: int) -> Iterator[bytes]:
        """Yield a file's bytes from ``start`` to before ``stop``; raises OSError."""
        return self._blobs.read(key, start, stop)

    def sweep(self) -> int:
        """Delete what is too old, and what was begun and never finished; return how many files.

        Raises:
            StorageError: something could not be read or removed.
        """
        now_s, num_deleted = self._clock(), 0
        with storage_faults():
            for key, _ in self._blobs.files():
                named = _NAME.match(key.rpartition("/")[2])
                if named is None:
                    continue  # not ours
                is_finished = _KEY.fullmatch(key) is not None
                longest_s = self._limits.retention_s if is_finished else _UNFINISHED_S
                if longest_s and now_s - int(named["made_ms"], 16) / 1000 > longest_s:
                    self._blobs.delete(key)
                    num_deleted += 1
            self._blobs.delete_empty_folders()
        self._counted_s = -_COUNTED_S
        return num_deleted

    def _new_key(self, suffix: str, owner: str | None) -> str:
        assert suffix in MEDIA_TYPES, suffix
        now_s = self._clock()
        day = time.strftime("%Y-%m-%d", time.gmtime(now_s))
        random = secrets.token_hex(16)
        return f"{day}/{int(now_s * 1000):012x}-{_owner_tag(owner)}-{random}.{suffix}"

    def _check_room(self, num_bytes: int) -> None:
        """Raise StorageFullError if there is none for a file."""
        limits = self._limits
        if self._blobs.folder is not None:
            check_free(self._blobs.folder, num_bytes, limits.min_free_bytes)
        if limits.max_bytes and self._num_kept() + num_bytes > limits.max_bytes:
            raise StorageFullError(
                "The server keeps as many images and videos as it may (media.max_gib): nothing was"
                " stored. Ask for 'response_format': 'b64_json', or come again later."
            )

    def _num_kept(self) -> int:
        """Return the bytes of all files, as counted a moment ago."""
        with self._lock:
            if self._clock() - self._counted_s >= _COUNTED_S:
                self._num_bytes = sum(num_bytes for _, num_bytes in self._blobs.files())
                self._counted_s = self._clock()
            return self._num_bytes

    def _count(self, num_bytes: int) -> None:
        with self._lock:
            self._num_bytes += num_bytes


def _owner_tag(owner: str | None) -> str:
    """Return what stands for an owner in names, without naming them."""
    return hashlib.sha256(f"antiphon media\0{owner or ''}".encode()).hexdigest()[:16]
