"""The voices and consents of a data folder: a row in SQLite each, and a blob.

A transaction holds SQLite's write lock from before its first blob until its commit. While the lock
is held, a blob without a row has no writer: it was left by one that died. A row is visible to other
processes once it is committed, and its blob exists by then.
"""

import hashlib
import sqlite3
from collections.abc import Generator, Iterable
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from antiphon.storage.blobs import BlobStore
from antiphon.storage.database import Database, Schema
from antiphon.storage.errors import StorageError
from antiphon.storage.faults import storage_faults

_VOICES = """CREATE TABLE voices (
    id TEXT PRIMARY KEY, name TEXT NOT NULL, name_key TEXT NOT NULL,
    created_s INTEGER NOT NULL, kind TEXT NOT NULL, media_type TEXT NOT NULL,
    num_bytes INTEGER NOT NULL, content_hash TEXT NOT NULL,
    consent TEXT, ref_text TEXT, description TEXT,
    owner TEXT NOT NULL DEFAULT '', UNIQUE (owner, name_key))"""
_VOICE_COLUMNS = """id, name, name_key, created_s, kind, media_type, num_bytes, content_hash,
    consent, ref_text, description"""
_CHECKSUMS = "CREATE TABLE checksums (id TEXT PRIMARY KEY, sha256 TEXT NOT NULL)"  # of blobs
SCHEMA = Schema(
    file_name="antiphon.sqlite3",
    version=3,
    migrations={
        0: (
            "CREATE TABLE store (id TEXT NOT NULL)",
            "INSERT INTO store VALUES (lower(hex(randomblob(8))))",
            _VOICES,
            _CHECKSUMS,
            """CREATE TABLE consents (
                id TEXT PRIMARY KEY, name TEXT NOT NULL, language TEXT NOT NULL,
                created_s INTEGER NOT NULL, media_type TEXT NOT NULL, num_bytes INTEGER NOT NULL,
                owner TEXT NOT NULL DEFAULT '')""",
        ),
        1: (  # had no owners, and each name once
            "ALTER TABLE voices RENAME TO old_voices",
            _VOICES,
            f"INSERT INTO voices ({_VOICE_COLUMNS}) SELECT {_VOICE_COLUMNS} FROM old_voices",
            "DROP TABLE old_voices",
            "ALTER TABLE consents ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
            _CHECKSUMS,
        ),
        2: (_CHECKSUMS,),  # what was stored before it has none
    },
)
BLOB_IDS = "SELECT id FROM voices UNION ALL SELECT id FROM consents"


@dataclass(slots=True, eq=False)
class Transaction:
    """Changes of rows and their blobs that are made together; a blob's key is its row's id."""

    connection: sqlite3.Connection
    blobs: BlobStore
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
        digest = hashlib.sha256(content).hexdigest()
        self.execute("INSERT INTO checksums VALUES (?, ?)", row["id"], digest)

    def delete(self, table: str, id: str) -> None:
        """Remove a row, and its blob after the commit."""
        self.execute(f"DELETE FROM {table} WHERE id = ?", id)
        self.execute("DELETE FROM checksums WHERE id = ?", id)
        self.dropped.append(id)


class VoiceDatabase(Database):
    """A folder's voices and consents, with their blobs."""

    def __init__(
        self, folder: Path, blobs: BlobStore | None = None, *, min_free_bytes: int = 0
    ) -> None:
        """Use a folder; ``blobs`` default to a folder in it."""
        super().__init__(folder, SCHEMA, min_free_bytes=min_free_bytes)
        self._blobs = blobs or BlobStore(folder / "blobs")

    def content(self, id: str) -> bytes:
        """Return the blob of a row; raises StorageError if it cannot be read, or is damaged."""
        with storage_faults():
            (store,) = self.query("SELECT id FROM store")
            content = self._blobs.get(f"{store['id']}/{id}")
        known = self.query("SELECT sha256 FROM checksums WHERE id = ?", id)
        if known and known[0]["sha256"] != hashlib.sha256(content).hexdigest():
            raise StorageError(f"The recording of '{id}' is damaged: upload it again.")
        return content

    @contextmanager
    def transaction(self) -> Generator[Transaction, None, None]:
        """Commit all changes of the block, or none if it raises; raises StorageError."""
        with storage_faults(), ExitStack() as undo:
            with self.write() as connection:
                (store,) = connection.execute("SELECT id FROM store")
                changes = Transaction(connection, self._blobs, store["id"])
                undo.callback(self._discard, changes.folder, changes.added)
                yield changes
            undo.pop_all()
        self._discard(changes.folder, changes.dropped)

    def sweep(self) -> None:
        """Remove blobs without a row; raises StorageError."""
        if not self.query("SELECT id FROM store"):
            return
        with self.transaction() as changes:
            known = {row["id"] for row in changes.execute(BLOB_IDS)}
            orphans = set(self._blobs.names(changes.folder)) - known
            self._discard(changes.folder, orphans)  # while the lock is held

    def _discard(self, folder: str, names: Iterable[str]) -> None:
        """Remove blobs; one that cannot be removed is left to the next `sweep`."""
        for name in names:
            with suppress(OSError):
                self._blobs.delete(f"{folder}/{name}")
