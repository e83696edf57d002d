"""Copies of SQLite databases that are in use: whole, and of one moment."""

import sqlite3
from contextlib import closing
from pathlib import Path

from antiphon.storage.database import storage_faults


def copy_database(source: Path, target: Path) -> bool:
    """Copy a database by SQLite's own online backup; ``False`` if there is none.

    Raises:
        StorageError: it cannot be read, or the copy cannot be written.
    """
    if not source.exists():
        return False
    with (
        storage_faults(),
        closing(sqlite3.connect(source, timeout=30.0)) as old,
        closing(sqlite3.connect(target)) as new,
    ):
        old.backup(new)
        new.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    return True
