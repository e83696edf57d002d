"""Errors of disks and databases, as errors of ours that show clients no path."""

import errno
import sqlite3
import sys
from collections.abc import Generator
from contextlib import contextmanager

from antiphon.storage.errors import StorageBusyError, StorageError, StorageFullError

_BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_PROTOCOL")
_FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")
_REMOTE = (
    ("botocore.exceptions", "BotoCoreError"),
    ("botocore.exceptions", "ClientError"),
    ("aiohttp", "ClientError"),
    ("azure.core.exceptions", "AzureError"),
    ("google.auth.exceptions", "GoogleAuthError"),
)
"""What clients of object stores raise that is no OSError."""


@contextmanager
def storage_faults() -> Generator[None, None, None]:
    """Raise a `StorageError` in place of `OSError` and `sqlite3.Error`."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError from error
        reason = error.strerror or type(error).__name__
        raise StorageError(f"The server's data folder cannot be used: {reason}.") from error
    except sqlite3.Error as error:
        name = getattr(error, "sqlite_errorname", "")
        if name in _FULL:
            raise StorageFullError from error
        if name.startswith(_BUSY):  # "SQLITE_BUSY_SNAPSHOT" is one of them
            raise StorageBusyError from error
        raise StorageError(f"The server's database cannot be used: {error}.") from error
    except remote_errors() as error:
        reason = type(error).__name__
        raise StorageError(f"The server's storage cannot be used: {reason}.") from error


def remote_errors() -> tuple[type[Exception], ...]:
    """Return the classes of errors of those clients of object stores that are in use."""
    loaded = ((sys.modules.get(module), name) for module, name in _REMOTE)
    return tuple(getattr(module, name) for module, name in loaded if module is not None)
