"""Stores of voices in folders of the tests, and a disk that fails at a moment of choice."""

from pathlib import Path

from antiphon.storage.blobs import BlobStore
from antiphon.storage.voice_database import VoiceDatabase
from antiphon.voices.store import VoiceStore

MAX_VOICES = 4
OPENED: list[VoiceDatabase] = []


class Killed(BaseException):
    """The process is gone: nobody handles this, and nothing is tidied up."""


class FaultyBlobs(BlobStore):
    """BlobStore of a process that dies, or of a disk that is full, at a moment of choice."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.fault: tuple[str, BaseException] | None = None
        self.is_dead = False

    def put(self, key: str, content: bytes) -> None:
        self._perhaps("before put")
        super().put(key, content)
        self._perhaps("after put")

    def delete(self, key: str) -> None:
        self._perhaps("before delete")
        super().delete(key)

    def _perhaps(self, now: str) -> None:
        if self.is_dead:
            raise Killed
        if self.fault is not None and self.fault[0] == now:
            self.is_dead = isinstance(self.fault[1], Killed)
            raise self.fault[1]


def database(folder: Path, blobs: BlobStore | None = None) -> VoiceDatabase:
    OPENED.append(VoiceDatabase(folder, blobs))
    return OPENED[-1]


def opened(folder: Path, blobs: BlobStore | None = None) -> VoiceStore:
    return VoiceStore(database(folder, blobs), MAX_VOICES)


def blob_names(folder: Path) -> set[str]:
    return {path.name for path in (folder / "blobs").glob("*/*")}
