"""Room on the disk: what stays free, and a piece kept back so that deleting works on a full one.

SQLite writes a log before it forgets a row, so that a full disk could not be emptied. A file of a
megabyte is kept for that: it goes when room is needed, and comes back once there is some.
"""

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from antiphon.storage.errors import StorageFullError

T = TypeVar("T")

FILE_NAME = "reserve"
NUM_BYTES = 1024 * 1024
_PIECE_BYTES = 64 * 1024


class DiskReserve:
    """A file in a data folder that does nothing but take up room."""

    def __init__(self, folder: Path) -> None:
        """Keep it in a folder, which need not exist yet."""
        self._path = folder / FILE_NAME

    def keep(self) -> None:
        """Take up the room again, as much of it as there is."""
        with suppress(OSError):
            missing = NUM_BYTES - (self._path.stat().st_size if self._path.exists() else 0)
            if missing <= 0 or not self._path.parent.exists():
                return
            with self._path.open("ab", buffering=0) as file:
                while missing > 0:  # of random bytes: some file systems store zeros in no room
                    missing -= file.write(os.urandom(min(missing, _PIECE_BYTES)))

    def free(self) -> None:
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def within(self, action: Callable[[], T]) -> T:
        """Do what must be possible on a full disk; if there is no room, take the reserve's.

        Raises:
            StorageFullError: even that was not enough.
        """
        try:
            return action()
        except StorageFullError:
            self.free()
            try:
                return action()
            finally:
                self.keep()


def free_bytes(folder: Path) -> int:
    """Return the free bytes on the disk of a folder, existing or not; raises OSError."""
    there = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    return shutil.disk_usage(there).free


def check_free(folder: Path, num_bytes: int, min_free_bytes: int) -> None:
    """Refuse to store what would leave too little of the disk free.

    Raises:
        StorageFullError: it would.
        OSError: the disk cannot be asked.
    """
    if min_free_bytes and free_bytes(folder) - num_bytes < min_free_bytes:
        raise StorageFullError(
            "The server's disk is nearly full (data.min_free_mib): nothing was stored."
        )
