"""The SQLite file of the jobs: its schema, and rows that are damaged."""

import json
import sqlite3
from typing import Any

from antiphon.storage.database import Schema
from antiphon.storage.job import (
    Job,
    JobChapter,
    JobFault,
    JobFile,
    JobProgress,
    JobResult,
    JobState,
)

COLUMNS = "id, owner, state, body, created_s, finished_s, progress, result, fault, num_bytes"
UNREADABLE = JobFault(
    message="The job's row is damaged and cannot be read: delete it, and create the job again.",
    type="server_error",
    code="job_unreadable",
)


def _decoded(content: bytes) -> str:
    """Decode a text; a damaged one is a fault of its row, not of the whole query."""
    return content.decode("utf-8", "surrogateescape")


_WITH_KINDS = (
    "ALTER TABLE jobs ADD COLUMN kind TEXT NOT NULL DEFAULT 'speech'",
    "ALTER TABLE jobs ADD COLUMN input BLOB",
)
_WITH_MODEL = "ALTER TABLE jobs ADD COLUMN model TEXT NOT NULL DEFAULT ''"
SCHEMA = Schema(
    file_name="jobs.sqlite3",
    version=4,
    unversioned_table="jobs",
    decode_text=_decoded,
    migrations={
        0: (
            """CREATE TABLE jobs (
                id TEXT PRIMARY KEY, state TEXT NOT NULL, body TEXT NOT NULL,
                created_s INTEGER NOT NULL, finished_s INTEGER, progress TEXT NOT NULL,
                result TEXT, fault TEXT, runner TEXT, owner TEXT NOT NULL DEFAULT '',
                num_attempts INTEGER NOT NULL DEFAULT 0, num_beats INTEGER NOT NULL DEFAULT 0,
                num_bytes INTEGER NOT NULL DEFAULT 0, kind TEXT NOT NULL DEFAULT 'speech',
                input BLOB, model TEXT NOT NULL DEFAULT '')""",
        ),
        # The first layout called its runner an owner, and leased by the wall clock. A server that
        # still uses it finds none of its columns here, and fails instead of writing into others.
        1: (
            "ALTER TABLE jobs RENAME COLUMN owner TO runner",
            "ALTER TABLE jobs RENAME COLUMN lent_until_s TO unused_s",
            "ALTER TABLE jobs ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
            "ALTER TABLE jobs ADD COLUMN num_attempts INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE jobs ADD COLUMN num_beats INTEGER NOT NULL DEFAULT 0",
            "ALTER TABLE jobs ADD COLUMN num_bytes INTEGER NOT NULL DEFAULT 0",
            *_WITH_KINDS,
            _WITH_MODEL,
        ),
        # A server that knows one kind of jobs would fail all others: it finds a later version.
        2: (*_WITH_KINDS, _WITH_MODEL),
        # A server that knows no models would run all jobs with its own.
        3: (_WITH_MODEL,),
    },
)


def job_of(row: sqlite3.Row) -> Job:
    """Return the job of a row; a failed one with the fault `UNREADABLE` if the row is damaged."""
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
