"""The jobs of a data folder, in SQLite; a job that runs is lent to one server at a time.

A server that dies stops renewing its loan, and another server, or its own successor, takes the job
over. Whoever has lost a job hears so at the next report and leaves it alone.
"""

import json
import sqlite3
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from antiphon.errors import JobStateError, TooManyJobsError, UnknownJobError
from antiphon.media.job import (
    Job,
    JobChapter,
    JobFault,
    JobFile,
    JobProgress,
    JobResult,
    JobState,
)
from antiphon.voices.names import new_id
from antiphon.voices.vault import storage_faults

FILE_NAME = "jobs.sqlite3"
LOAN_S = 30.0

_MAX_WAIT_S = 30.0
_SCHEMA = """CREATE TABLE IF NOT EXISTS jobs (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, body TEXT NOT NULL, created_s INTEGER NOT NULL,
    finished_s INTEGER, progress TEXT NOT NULL, result TEXT, fault TEXT,
    owner TEXT, lent_until_s REAL)"""
_COLUMNS = "id, state, body, created_s, finished_s, progress, result, fault"
_NEXT = """SELECT id FROM jobs WHERE state = 'queued' OR (state = 'running' AND lent_until_s < ?)
    ORDER BY id LIMIT 1"""
_CHANGES = {
    "pause": ((JobState.QUEUED, JobState.RUNNING), JobState.PAUSED),
    "resume": ((JobState.PAUSED, JobState.FAILED), JobState.QUEUED),
    "cancel": ((JobState.QUEUED, JobState.RUNNING, JobState.PAUSED), JobState.CANCELLED),
}


class JobLedger:
    """Jobs by id; blocks, so it belongs in worker threads."""

    def __init__(self, folder: Path, max_jobs: int) -> None:
        """Keep up to ``max_jobs`` in a folder; nothing is written before the first."""
        self._folder = folder
        self._max_jobs = max_jobs

    def add(self, body: str) -> Job:
        """Put a job at the end of the queue.

        Raises:
            TooManyJobsError: there are as many as may be.
            StorageError: it could not be kept.
        """
        id = new_id("job")
        with self._change(makes=True) as db:
            ((num_jobs,),) = db.execute("SELECT count(*) FROM jobs")
            if num_jobs >= self._max_jobs:
                raise TooManyJobsError(self._max_jobs)
            progress = json.dumps(asdict(JobProgress()))
            row = (id, JobState.QUEUED, body, int(time.time()), progress)
            places = "INSERT INTO jobs (id, state, body, created_s, progress) VALUES"
            db.execute(f"{places} (?, ?, ?, ?, ?)", row)
            return _found(db, id)

    def get(self, id: str) -> Job:
        """Return a job.

        Raises:
            UnknownJobError: there is none of this id.
        """
        with self._change() as db:
            return _found(db, id)

    def page(self, limit: int, after: str | None) -> list[Job]:
        """Return jobs, the newest first, beginning behind the one of the id ``after``."""
        with self._change() as db:
            rows = db.execute(
                f"SELECT {_COLUMNS} FROM jobs WHERE ? IS NULL OR id < ? ORDER BY id DESC LIMIT ?",
                (after, after, limit),
            )
            return [_job(row) for row in rows]

    def change(self, id: str, action: str) -> Job:
        """Pause, resume or cancel a job; what is so already stays as it is.

        Raises:
            UnknownJobError: there is none of this id.
            JobStateError: it has ended, or cannot be resumed.
        """
        allowed, target = _CHANGES[action]
        with self._change() as db:
            job = _found(db, id)
            if job.state is target:
                return job
            if job.state not in allowed:
                raise JobStateError(action, job.state)
            finished_s = int(time.time()) if target.is_final else None
            db.execute(
                "UPDATE jobs SET state = ?, finished_s = ?, owner = NULL, fault = NULL"
                " WHERE id = ?",
                (target, finished_s, id),
            )
            return _found(db, id)

    def delete(self, id: str) -> Job:
        """Forget a job, whatever its state is.

        Raises:
            UnknownJobError: there is none of this id.
        """
        with self._change() as db:
            job = _found(db, id)
            db.execute("DELETE FROM jobs WHERE id = ?", (id,))
            return job

    def borrow(self, owner: str) -> Job | None:
        """Take the oldest job that waits, or whose server has died; ``None`` if there is none."""
        with self._change() as db:
            now_s = time.time()
            row = db.execute(_NEXT, (now_s,)).fetchone()
            if row is None:
                return None
            db.execute(
                "UPDATE jobs SET state = 'running', owner = ?, lent_until_s = ? WHERE id = ?",
                (owner, now_s + LOAN_S, row["id"]),
            )
            return _found(db, row["id"])

    def report(self, id: str, owner: str, progress: JobProgress) -> bool:
        """Say how far a job is, and renew the loan; ``False`` if it is not the owner's any more."""
        values = {"progress": json.dumps(asdict(progress)), "lent_until_s": time.time() + LOAN_S}
        return self._update(id, owner, values)

    def give_back(self, id: str, owner: str) -> None:
        """Let the next server have a job at once."""
        self._update(id, owner, {"state": JobState.QUEUED, "owner": None})

    def finish(self, id: str, owner: str, outcome: JobResult | JobFault) -> bool:
        """End a job; ``False`` if it is not the owner's any more."""
        is_done = isinstance(outcome, JobResult)
        values = {
            "state": JobState.COMPLETED if is_done else JobState.FAILED,
            "result" if is_done else "fault": json.dumps(asdict(outcome)),
            "finished_s": int(time.time()),
            "owner": None,
        }
        return self._update(id, owner, values)

    def _update(self, id: str, owner: str, values: dict[str, Any]) -> bool:
        places = ", ".join(f"{name} = ?" for name in values)
        with self._change() as db:
            done = db.execute(
                f"UPDATE jobs SET {places} WHERE id = ? AND owner = ? AND state = 'running'",
                (*values.values(), id, owner),
            )
            return done.rowcount == 1

    @contextmanager
    def _change(self, *, makes: bool = False) -> Generator[sqlite3.Connection, None, None]:
        """Make all of a change, or nothing if the block raises; changes come one by one.

        A folder without jobs is an empty database that is not written, unless ``makes``.
        """
        with storage_faults():
            path = self._folder / FILE_NAME
            if makes:
                self._folder.mkdir(parents=True, exist_ok=True)
            is_there = makes or path.exists()
            db = sqlite3.connect(
                path if is_there else ":memory:", timeout=_MAX_WAIT_S, isolation_level=None
            )
            try:
                db.row_factory = sqlite3.Row
                db.execute("PRAGMA synchronous = FULL")
                with db:  # all of it, or nothing
                    db.execute("BEGIN IMMEDIATE")
                    db.execute(_SCHEMA)
                    yield db
            finally:
                db.close()


def _found(db: sqlite3.Connection, id: str) -> Job:
    row = db.execute(f"SELECT {_COLUMNS} FROM jobs WHERE id = ?", (id,)).fetchone()
    if row is None:
        raise UnknownJobError(id)
    return _job(row)


def _job(row: sqlite3.Row) -> Job:
    return Job(
        id=row["id"],
        state=JobState(row["state"]),
        body=row["body"],
        created_s=row["created_s"],
        finished_s=row["finished_s"],
        progress=JobProgress(**json.loads(row["progress"])),
        result=None if row["result"] is None else _result(json.loads(row["result"])),
        fault=None if row["fault"] is None else JobFault(**json.loads(row["fault"])),
    )


def _result(members: dict[str, Any]) -> JobResult:
    files = tuple(JobFile(**each) for each in members.pop("files"))
    chapters = tuple(JobChapter(**each) for each in members.pop("chapters"))
    unspoken = tuple(members.pop("unspoken", ()))
    return JobResult(files=files, chapters=chapters, unspoken=unspoken, **members)
