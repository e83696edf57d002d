"""Rows of SQLite that have a blob each: both appear together, and both go together.

A change holds SQLite's write lock from before its first blob until its commit. So whoever holds
the lock knows that a blob without a row belongs to nobody: its writer has died, or has left it
behind. A row is seen, by every process, once it is committed, and its blob is there by then.
"""

import errno
import secrets
import sqlite3
import time
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.errors import StorageError, StorageFullError
from antiphon.storage.blobs import Blobs
from antiphon.storage.database_reader import Reader
from antiphon.storage.disk_reserve import DiskReserve, check_free

FILE_NAME = "antiphon.sqlite3"
_VERSION = 2
_MAX_WAIT_S = 30.0
_FULL = ("SQLITE_FULL", "SQLITE_IOERR_SHMSIZE")
_VOICES = """CREATE TABLE voices (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, name_key TEXT NOT NULL,
    created_s INTEGER NOT NULL, kind TEXT NOT NULL, media_type TEXT NOT NULL,
    num_bytes INTEGER NOT NULL, content_hash TEXT NOT NULL,
    consent TEXT, ref_text TEXT, description TEXT,
    owner TEXT NOT NULL DEFAULT '', UNIQUE (owner, name_key))"""
_VOICE_COLUMNS = """id, name, name_key, created_s, kind, media_type, num_bytes, content_hash,
    consent, ref_text, description"""
_SCHEMA = (
    "CREATE TABLE store (id TEXT NOT NULL)",
    _VOICES,
    """CREATE TABLE consents (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, language TEXT NOT NULL,
        created_s INTEGER NOT NULL, media_type TEXT NOT NULL, num_bytes INTEGER NOT NULL,
        owner TEXT NOT NULL DEFAULT '')""",
)
# In the first layout nothing had an owner, and names were there once for all.
_FROM_FIRST = (
    "ALTER TABLE voices RENAME TO old_voices",
    _VOICES,
    f"INSERT INTO voices ({_VOICE_COLUMNS}) SELECT {_VOICE_COLUMNS} FROM old_voices",
    "DROP TABLE old_voices",
    "ALTER TABLE consents ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
)
_IDS = "SELECT id FROM voices UNION ALL SELECT id FROM consents"


@dataclass(slots=True, eq=False)
class Transaction:
    """What is done to rows and blobs in one go; a blob's key is the id of its row."""

    connection: sqlite3.Connection
    blobs: Blobs
    folder: str
    added: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def execute(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        return self.connection.execute(sql, values).fetchall()

    def insert(self, table: str, row: dict[str, Any], content: bytes) -> None:
        """Add a row with its blob; ``row`` has an ``id``."""
        self.added.append(row["id"])
        self.blobs.put(f"{self.folder}/{row['id']}", content)
        places = ", ".join("?" * len(row))
        self.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({places})", *row.values())

    def delete(self, table: str, id: str) -> None:
        """Remove a row, and its blob once that is certain."""
        self.execute(f"DELETE FROM {table} WHERE id = ?", id)
        self.dropped.append(id)


class Database:
    """A folder's database and its blobs; for threads, and for several processes at once.

    Nothing is written before the first change: a folder that is not there is an empty one.
    """

    def __init__(
        self, folder: Path, blobs: Blobs | None = None, *, min_free_bytes: int = 0
    ) -> None:
        """Use a folder.

        Args:
            folder: on a disk of this machine.
            blobs: default: in the folder.
            min_free_bytes: so much of the disk stays free; see `check_room`.
        """
        self._folder = folder
        self._blobs = blobs or Blobs(folder / "blobs")
        self._min_free_bytes = min_free_bytes
        self.reserve = DiskReserve(folder)
        within = self.reserve.within
        self._reader = Reader(folder / FILE_NAME, lambda: within(self._connected))

    def query(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Return rows as they are now, whoever has written them.

        Raises:
            StorageError: the database cannot be read.
        """
        with storage_faults():
            return self._reader.query(sql, *values)

    def content(self, id: str) -> bytes:
        """Return the blob of a row.

        Raises:
            StorageError: it cannot be read.
        """
        with storage_faults():
            (store,) = self.query("SELECT id FROM store")
            return self._blobs.get(f"{store['id']}/{id}")

    @contextmanager
    def change(self) -> Generator[Transaction, None, None]:
        """Make all of a change, or nothing if the block raises; changes come one by one.

        Raises:
            StorageError: it could not be made.
        """
        with storage_faults():
            self._folder.mkdir(parents=True, exist_ok=True)
            connection = self._connected()
            try:
                connection.execute("BEGIN IMMEDIATE")
                (store,) = connection.execute("SELECT id FROM store")
                change = Transaction(connection, self._blobs, store["id"])
                with ExitStack() as undo:
                    undo.callback(self._discard, change.folder, change.added)
                    with connection:  # all of it, or nothing
                        yield change
                    undo.pop_all()
            finally:
                connection.close()
        self._discard(change.folder, change.dropped)
        self.reserve.keep()

    def check_room(self, num_bytes: int) -> None:
        """Refuse to keep what would leave too little of the disk free.

        Raises:
            StorageFullError: it would.
        """
        with storage_faults():
            check_free(self._folder, num_bytes, self._min_free_bytes)

    def check(self, *, is_thorough: bool = False) -> None:
        """Find out whether the database can be read; ``is_thorough``: all of it.

        Raises:
            StorageError: it cannot.
        """
        self.query(_IDS)
        if is_thorough and (found := self.query("PRAGMA quick_check(1)")) and found[0][0] != "ok":
            raise StorageError(f"The server's database is damaged: {found[0][0]}.")

    def sweep(self) -> None:
        """Remove blobs that belong to nobody.

        Raises:
            StorageError: the folder cannot be read or written.
        """
        if not self.query("SELECT id FROM store"):
            return
        with self.change() as change:
            known = {row["id"] for row in change.execute(_IDS)}
            orphans = set(self._blobs.names(change.folder)) - known
            self._discard(change.folder, orphans)  # while the lock is held

    def close(self) -> None:
        """Let go of the database."""
        self._reader.close()

    def _discard(self, folder: str, names: Iterable[str]) -> None:
        """Remove blobs; one that cannot be removed is left to the next `sweep`."""
        for name in names:
            with suppress(OSError):
                self._blobs.delete(f"{folder}/{name}")

    def _connected(self) -> sqlite3.Connection:
        with storage_faults(), ExitStack() as undo:
            connection = sqlite3.connect(
                self._folder / FILE_NAME,
                timeout=_MAX_WAIT_S,
                isolation_level=None,
                check_same_thread=False,
            )
            undo.callback(connection.close)
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA synchronous = FULL")
            _prepare(connection)
            undo.pop_all()
            return connection


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables, once, whichever process comes first.

    Raises:
        StorageError: they are those of a later version.
    """
    if _version(connection) < _VERSION:
        use_wal(connection, _MAX_WAIT_S)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            version = _version(connection)
            for statement in {0: _SCHEMA, 1: _FROM_FIRST}.get(version, ()):
                connection.execute(statement)
            if version == 0:
                connection.execute("INSERT INTO store VALUES (?)", (secrets.token_hex(8),))
            if version < _VERSION:
                connection.execute(f"PRAGMA user_version = {_VERSION}")
    if (version := _version(connection)) != _VERSION:
        raise StorageError(
            f"The data folder was written by a later version of Antiphon: its format is {version},"
            f" this version knows {_VERSION}."
        )


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def use_wal(connection: sqlite3.Connection, max_wait_s: float) -> None:
    """Let readers read while somebody writes; two that ask for it at once get in each other's way.

    Here SQLite does not wait for the lock by itself.
    """
    deadline_s = time.monotonic() + max_wait_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)
        else:
            return


@contextmanager
def storage_faults() -> Generator[None, None, None]:
    """Tell faults of disks and databases in words that give no path away."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise StorageFullError from error
        reason = error.strerror or type(error).__name__
        raise StorageError(f"The server's data folder cannot be used: {reason}.") from error
    except sqlite3.Error as error:
        if getattr(error, "sqlite_errorname", "") in _FULL:
            raise StorageFullError from error
        raise StorageError(f"The server's database cannot be used: {error}.") from error
