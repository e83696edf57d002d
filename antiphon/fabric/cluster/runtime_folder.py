"""Folders for the sockets of one server's processes.

A folder is locked while its server runs. The next server removes the folder of a killed one.
"""

import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "antiphon-"
_LOCK = "lock"


@contextmanager
def runtime_folder() -> Generator[Path, None, None]:
    """Yield a folder that only this user can enter; it is removed when the block ends."""
    _remove_abandoned()
    folder, lock = _locked_folder()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def runtime_folders() -> Iterator[Path]:
    """Yield the folders of this user's servers, dead ones included; others cannot enter them."""
    for folder in sorted(Path(tempfile.gettempdir()).glob(f"{_PREFIX}*")):
        with suppress(OSError):  # it has been removed meanwhile
            found = folder.lstat()
            is_private = not stat.S_IMODE(found.st_mode) & 0o077
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and is_private:
                yield folder


def _locked_folder() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Until it was locked, another server that starts took it for abandoned.
        if (folder / _LOCK).exists():
            return folder, lock
        os.close(lock)


def _remove_abandoned() -> None:
    for folder in runtime_folders():
        with suppress(OSError):  # it is in use, or another server removes it too
            lock = os.open(folder / _LOCK, os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)
