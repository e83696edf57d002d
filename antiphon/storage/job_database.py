"""The SQLite file of the jobs: its layout, who reads and writes it, and rows that are damaged."""

import json
import sqlite3
from collections.abc import Generator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from antiphon.errors import StorageError
from antiphon.storage.database import storage_faults, use_wal
from antiphon.storage.database_reader import Reader
from antiphon.storage.disk_reserve import DiskReserve
from antiphon.storage.job import (
    Job,
    JobChapter,
    JobFault,
    JobFile,
    JobProgress,
    JobResult,
    JobState,
)

FILE_NAME = "jobs.sqlite3"
COLUMNS = "id, owner, state, body, created_s, finished_s, progress, result, fault, num_bytes"
UNREADABLE = JobFault(
    message="What was kept of the job is damaged and cannot be read: delete it, and order it anew.",
    type="server_error",
    code="job_unreadable",
)

_MAX_WAIT_S = 30.0
_VERSION = 2
_SCHEMA = """CREATE TABLE jobs (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, body TEXT NOT NULL, created_s INTEGER NOT NULL,
    finished_s INTEGER, progress TEXT NOT NULL, result TEXT, fault TEXT, runner TEXT,
    owner TEXT NOT NULL DEFAULT '', num_attempts INTEGER NOT NULL DEFAULT 0,
    num_beats INTEGER NOT NULL DEFAULT 0, num_bytes INTEGER NOT NULL DEFAULT 0)"""
# The first layout had no version, called its runner an owner, and lent by the wall clock. A server
# that still uses it finds none of its columns here, and says so, instead of writing into others.
_FROM_FIRST = (
    "ALTER TABLE jobs RENAME COLUMN owner TO runner",
    "ALTER TABLE jobs RENAME COLUMN lent_until_s TO unused_s",
    "ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "ALTER TABLE jobs ADD COLUMN num_attempts INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE jobs ADD COLUMN num_beats INTEGER NOT NULL DEFAULT 0",
    "ALTER TABLE jobs ADD COLUMN num_bytes INTEGER NOT NULL DEFAULT 0",
)


class JobDatabase:
    """A folder's jobs, for threads and for several processes at once.

    Who reads takes no lock that a writer would wait for, nor waits for one that writes.
    """

    def __init__(self, folder: Path) -> None:
        """Use a folder; one without jobs is an empty database that is not written."""
        self._folder = folder
        self._reserve = DiskReserve(folder)
        within = self._reserve.within
        self._reader = Reader(folder / FILE_NAME, lambda: within(self._connected))

    @property
    def reserve(self) -> DiskReserve:
        """The room that is kept back for what must be possible on a full disk."""
        return self._reserve

    def query(self, sql: str, *values: Any) -> list[sqlite3.Row]:
        """Return rows as they are now, whoever has written them.

        Raises:
            StorageError: the database cannot be read.
        """
        with storage_faults():
            return self._reader.query(sql, *values)

    @contextmanager
    def change(self) -> Generator[sqlite3.Connection, None, None]:
        """Make all of a change, or nothing if the block raises; changes come one by one.

        Raises:
            StorageError: it could not be made.
        """
        with storage_faults():
            self._folder.mkdir(parents=True, exist_ok=True)
            with closing(self._connected()) as db, db:  # all of it, or nothing
                db.execute("BEGIN IMMEDIATE")
                yield db
        self._reserve.keep()

    def close(self) -> None:
        """Let go of the file; who reads again opens it again."""
        self._reader.close()

    def _connected(self) -> sqlite3.Connection:
        with storage_faults(), ExitStack() as undo:
            db = sqlite3.connect(
                self._folder / FILE_NAME,
                timeout=_MAX_WAIT_S,
                isolation_level=None,
                check_same_thread=False,
            )
            undo.callback(db.close)
            db.row_factory = sqlite3.Row
            db.text_factory = _text
            db.execute("PRAGMA synchronous = FULL")
            _prepare(db)
            undo.pop_all()
            return db


def job_of(row: sqlite3.Row) -> Job:
    """Return what a row says; of one that cannot be read, that it cannot."""
    try:
        return _job(row)
    except (ValueError, TypeError, KeyError, AttributeError):
        created_s = row["created_s"]
        return Job(
            id=row["id"],
            owner=str(row["owner"]) or None,
            state=JobState.FAILED,
            body="",
            created_s=created_s if isinstance(created_s, int) else 0,
            finished_s=None,
            progress=JobProgress(),
            result=None,
            fault=UNREADABLE,
        )


def _job(row: sqlite3.Row) -> Job:
    for name in ("id", "owner", "body"):
        row[name].encode()  # neither bytes nor half a character
    for name in ("created_s", "num_bytes"):
        if not isinstance(row[name], int):
            raise TypeError(name)
    return Job(
        id=row["id"],
        owner=row["owner"] or None,
        state=JobState(row["state"]),
        body=row["body"],
        created_s=row["created_s"],
        finished_s=row["finished_s"],
        progress=JobProgress(**json.loads(row["progress"])),
        result=None if row["result"] is None else _result(json.loads(row["result"])),
        fault=None if row["fault"] is None else JobFault(**json.loads(row["fault"])),
        num_bytes=row["num_bytes"],
    )


def _result(members: dict[str, Any]) -> JobResult:
    files = tuple(JobFile(**each) for each in members.pop("files"))
    chapters = tuple(JobChapter(**each) for each in members.pop("chapters"))
    unspoken = tuple(members.pop("unspoken", ()))
    return JobResult(files=files, chapters=chapters, unspoken=unspoken, **members)


def _text(content: bytes) -> str:
    """Decode a text; one that is damaged is a fault of its row, not of the whole query."""
    return content.decode("utf-8", "surrogateescape")


def _prepare(db: sqlite3.Connection) -> None:
    """Make the table, or bring it to today's layout, whichever process comes first.

    Raises:
        StorageError: it is that of a later version.
    """
    if _version(db) < _VERSION:
        use_wal(db, _MAX_WAIT_S)
        with db:
            db.execute("BEGIN IMMEDIATE")
            if _version(db) == 0:
                (is_there,) = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'jobs'")
                for statement in _FROM_FIRST if is_there[0] else (_SCHEMA,):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {_VERSION}")
    if (version := _version(db)) != _VERSION:
        raise StorageError(
            f"The jobs were written by a later version of Antiphon: their format is {version},"
            f" this version knows {_VERSION}."
        )


def _version(db: sqlite3.Connection) -> int:
    return int(db.execute("PRAGMA user_version").fetchone()[0])
