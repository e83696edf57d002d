"""A folder for the sockets of one server's processes, which leaves nothing behind.

It is locked while its server lives. One that a killed server has left is removed by the next.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

FOLDER_PREFIX = "antiphon-"
_LOCK = "lock"


@contextmanager
def runtime_folder() -> Generator[Path, None, None]:
    """Yield a folder that nobody else can enter; it is removed when the block ends."""
    parent = Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    folder = Path(tempfile.mkdtemp(prefix=FOLDER_PREFIX, dir=parent))
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _remove_abandoned(parent: Path) -> None:
    for lock in parent.glob(f"{FOLDER_PREFIX}*/{_LOCK}"):
        with suppress(OSError):  # another user's, or another server removes it too
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
