"""Reads a folder's SQLite file over one connection, which is opened when it is wanted."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any


class Reader:
    """Answers queries of several threads, one by one; a file that is not there has no rows."""

    def __init__(self, file: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        """Read ``file``, over what ``connect`` opens."""
        self._file = file
        self._connect = connect
        self._lock = Lock()
        self._connection: sqlite3.Connection | None = None

    def query(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Return rows as they are now, whoever has written them.

        Raises:
            sqlite3.Error: the database cannot be read. It is opened anew the next time, so that a
                file that was repaired is found.
            OSError: likewise.
            StorageError: from ``connect``.
        """
        with self._lock:
            if self._connection is None and not self._file.exists():
                return []
            if self._connection is None:
                self._connection = self._connect()
            try:
                return self._connection.execute(sql, values).fetchall()
            except (sqlite3.Error, OSError):
                self._close()
                raise

    def close(self) -> None:
        """Let go of the file; who reads again opens it again."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
