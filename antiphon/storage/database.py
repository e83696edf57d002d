"""A SQLite file in a data folder: opened, migrated, read, written and checked in one way.

Several threads and processes use one file at once. Readers neither take a lock that a writer waits
for, nor wait for a writer; writers come one by one.
"""

import secrets
import sqlite3
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from antiphon.storage.disk_reserve import DiskReserve, check_free
from antiphon.storage.errors import StorageError
from antiphon.storage.faults import storage_faults

MAX_WAIT_S = 5.0
"""A writer waits this long for another one; then its request is refused, to be sent again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """What a database looks like.

    Attributes:
        version: Schema version, as in `PRAGMA user_version`.
        migrations: the statements that lead from an older version to ``version``; 0 is an empty
            file.
        unversioned_table: a file that has this table but version 0 is of version 1.
        decode_text: makes a string of a text's bytes.
    """

    file_name: str
    version: int
    migrations: Mapping[int, tuple[str, ...]]
    unversioned_table: str | None = None
    decode_text: Callable[[bytes], str] = str


class Database:
    """A folder's database. Nothing is written before the first transaction."""

    def __init__(self, folder: Path, schema: Schema, *, min_free_bytes: int = 0) -> None:
        """Use a folder, on a disk of this machine; ``min_free_bytes``: see `check_room`."""
        self.reserve = DiskReserve(folder)
        self._folder = folder
        self._schema = schema
        self._min_free_bytes = min_free_bytes
        self._reader: sqlite3.Connection | None = None
        self._reader_lock = Lock()

    def query(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Return rows as they are now; a file that does not exist has none.

        Raises:
            StorageError: the database cannot be read. It is opened anew for the next query, so that
                a repaired file is found.
        """
        with storage_faults(), self._reader_lock:
            if self._reader is None and not (self._folder / self._schema.file_name).exists():
                return []
            if self._reader is None:
                self._reader = self.reserve.within(self._connected)
            try:
                return self._reader.execute(sql, values).fetchall()
            except (sqlite3.Error, OSError):
                self._close_reader()
                raise

    @contextmanager
    def write(self) -> Generator[sqlite3.Connection, None, None]:
        """Yield a connection in a transaction, committed as a whole; raises StorageError."""
        with storage_faults():
            self._folder.mkdir(parents=True, exist_ok=True)
            with closing(self._connected()) as connection, connection:
                connection.execute("BEGIN IMMEDIATE")
                yield connection
        self.reserve.keep()

    def check_room(self, num_bytes: int) -> None:
        """Check that so many bytes leave enough of the disk free; raises StorageFullError."""
        with storage_faults():
            check_free(self._folder, num_bytes, self._min_free_bytes)

    def check(self, *, is_thorough: bool = False) -> None:
        """Check that the database can be read; ``is_thorough``: all of it; raises StorageError."""
        for (table,) in self.query("SELECT name FROM sqlite_master WHERE type = 'table'"):
            self.query(f"SELECT * FROM {table} LIMIT 1")
        if is_thorough and (found := self.query("PRAGMA quick_check(1)")) and found[0][0] != "ok":
            raise StorageError(f"The server's database is damaged: {found[0][0]}.")

    def close(self) -> None:
        """Close the file; the next query opens it again."""
        with self._reader_lock:
            self._close_reader()

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _connected(self) -> sqlite3.Connection:
        with storage_faults(), ExitStack() as undo:
            connection = sqlite3.connect(
                self._folder / self._schema.file_name,
                timeout=MAX_WAIT_S,
                isolation_level=None,
                check_same_thread=False,
            )
            undo.callback(connection.close)
            connection.row_factory = sqlite3.Row
            connection.text_factory = self._schema.decode_text
            connection.execute("PRAGMA synchronous = FULL")
            _migrate(connection, self._schema)
            undo.pop_all()
            return connection


def new_id(prefix: str) -> str:
    """Return a fresh id, as ``voice_`` and 24 digits; later ones sort after earlier ones."""
    return f"{prefix}_{time.time_ns() // 1000:014x}{secrets.token_hex(5)}"


def _migrate(connection: sqlite3.Connection, schema: Schema) -> None:
    """Migrate a file to the schema's version, in one of the processes; raises StorageError."""
    if _version(connection, schema) < schema.version:
        _use_wal(connection)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            version = _version(connection, schema)
            for statement in schema.migrations.get(version, ()):
                connection.execute(statement)
            if version < schema.version:
                connection.execute(f"PRAGMA user_version = {schema.version}")
    if (version := _version(connection, schema)) != schema.version:
        raise StorageError(
            f"The data folder was written by a later version of Antiphon: the format of"
            f" {schema.file_name} is {version}, this version knows {schema.version}."
        )


def _version(connection: sqlite3.Connection, schema: Schema) -> int:
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version == 0 and schema.unversioned_table is not None:
        tables = "SELECT count(*) FROM sqlite_master WHERE name = ?"
        version = int(connection.execute(tables, (schema.unversioned_table,)).fetchone()[0])
    return version


def _use_wal(connection: sqlite3.Connection) -> None:
    """Let readers read during a transaction; SQLite itself does not wait for this lock."""
    deadline_s = time.monotonic() + MAX_WAIT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)
        else:
            return
