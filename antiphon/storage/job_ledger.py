"""The jobs of a data folder; a job that runs is one runner's at a time.

A runner that dies leaves its jobs to others, or to its own successor. A runner that has lost a job
learns it at the next report and stops. A job under which servers die again and again is failed.
"""

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Container
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from antiphon.contracts.types import OPERATOR, Caller
from antiphon.storage.database import Database, new_id
from antiphon.storage.errors import (
    JobStateError,
    StorageQuotaError,
    TooManyJobsError,
    UnknownJobError,
)
from antiphon.storage.job import Job, JobFault, JobKind, JobLimits, JobProgress, JobResult, JobState
from antiphon.storage.job_database import COLUMNS, SCHEMA, UNREADABLE, job_of
from antiphon.storage.leases import Clock, LeaseHolder, Leases

logger = logging.getLogger(__name__)

T = TypeVar("T")

_FIND = f"SELECT {COLUMNS} FROM jobs WHERE id = ? AND kind = ?"
_OPEN = """SELECT id, state, runner, num_beats, num_attempts, model FROM jobs
    WHERE kind = ? AND state IN ('queued', 'running') AND typeof(id) = 'text' ORDER BY id"""
_TAKE = """UPDATE jobs SET state = 'running', runner = ?, num_beats = num_beats + 1,
    num_attempts = num_attempts + 1
    WHERE id = ? AND state = ? AND runner IS ? AND num_beats = ?"""
_GIVE_UP = """UPDATE jobs SET state = 'failed', runner = NULL, finished_s = ?, fault = ?,
    num_bytes = 0, input = NULL WHERE id = ? AND state = ? AND runner IS ? AND num_beats = ?"""
_CHANGES = {
    "pause": ((JobState.QUEUED, JobState.RUNNING), JobState.PAUSED),
    "resume": ((JobState.PAUSED, JobState.FAILED), JobState.QUEUED),
    "cancel": ((JobState.QUEUED, JobState.RUNNING, JobState.PAUSED), JobState.CANCELLED),
}


class JobLedger:
    """Jobs of one kind, by id; blocks, so it belongs in worker threads."""

    def __init__(
        self,
        folder: Path,
        limits: JobLimits | None = None,
        kind: JobKind = JobKind.SPEECH,
        *,
        clock: Clock = time.monotonic,
    ) -> None:
        """Keep jobs in a folder; nothing is written before the first.

        Args:
            limits: Limits of number and size, for all kinds together; default:
                those of `JobLimits`.
            clock: monotonic seconds, to time heartbeats.
        """
        self.limits = limits or JobLimits()
        self.kind = kind
        self._database = Database(folder, SCHEMA)
        self._runners = folder / "runners"
        self._leases = Leases(self._runners, clock)

    def runner(self) -> LeaseHolder:
        """Return an identity to acquire jobs with."""
        return LeaseHolder(self._runners)

    def add(
        self,
        body: str,
        owner: str | None = None,
        num_bytes: int = 0,
        input: bytes | None = None,
        model: str = "",
    ) -> Job:
        """Put a job at the end of the queue.

        Args:
            body: the request, as JSON.
            num_bytes: Disk space in bytes to reserve.
            input: a file that it needs, kept until it ends.
            model: Served name of its model; ``""``: that of any server.

        Raises:
            TooManyJobsError: there are as many as may be.
            StorageQuotaError: all of them would take more of the disk than they may.
            StorageError: it could not be kept.
        """
        id = new_id(self.kind.noun)
        with self._database.write() as db:
            self._check_limits(db, owner, num_bytes)
            progress = json.dumps(asdict(JobProgress()))
            row = (id, JobState.QUEUED, body, int(time.time()), progress, owner or "", num_bytes)
            names = "id, state, body, created_s, progress, owner, num_bytes, kind, input, model"
            db.execute(
                f"INSERT INTO jobs ({names}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row, self.kind, input, model),
            )
            return self._found(db, id)

    def get(self, id: str, caller: Caller = OPERATOR) -> Job:
        """Return a job.

        Raises:
            UnknownJobError: there is none of this id, or it is another caller's.
        """
        return _one(self._database.query(_FIND, _valid(id), self.kind), id, caller, self.kind)

    def input(self, id: str) -> bytes | None:
        """Return the file that a job was given; ``None`` without one, or when it has ended."""
        rows = self._database.query("SELECT input FROM jobs WHERE id = ?", _valid(id))
        found = rows[0]["input"] if rows else None
        return found if isinstance(found, bytes) else None

    def page(
        self,
        limit: int,
        after: str | None,
        caller: Caller = OPERATOR,
        *,
        oldest_first: bool = False,
    ) -> list[Job]:
        """Return jobs, the newest first, beginning behind the one of the id ``after``."""
        after = None if after is None else _valid(after)
        beyond, order = (">", "ASC") if oldest_first else ("<", "DESC")
        rows = self._database.query(
            f"SELECT {COLUMNS} FROM jobs WHERE (? IS NULL OR id {beyond} ?) AND (? OR owner = ?)"
            f" AND kind = ? AND typeof(id) = 'text' ORDER BY id {order} LIMIT ?",
            *(after, after, caller.is_admin, caller.owner or "", self.kind, limit),
        )
        return [job_of(row) for row in rows if row["id"].isascii()]

    def change(self, id: str, action: str, caller: Caller = OPERATOR) -> Job:
        """Pause, resume or cancel a job; what is so already stays as it is.

        Raises:
            UnknownJobError: there is none of this id, or it is another caller's.
            JobStateError: it has ended, or cannot be resumed.
        """
        allowed, target = _CHANGES[action]
        self.get(id, caller)

        def changed(db: sqlite3.Connection) -> Job:
            job = self._found(db, id, caller)
            if job.state is target:
                return job
            if job.state not in allowed or job.fault == UNREADABLE:
                raise JobStateError(action, job.state)
            finished_s = int(time.time()) if target.is_final else None
            # What has failed has left nothing behind, and begins anew.
            progress = JobProgress() if job.state is JobState.FAILED else job.progress
            db.execute(
                "UPDATE jobs SET state = ?, finished_s = ?, runner = NULL, fault = NULL,"
                " num_attempts = 0, progress = ? WHERE id = ?",
                (target, finished_s, json.dumps(asdict(progress)), id),
            )
            if target is JobState.CANCELLED:
                forgotten = "UPDATE jobs SET num_bytes = 0, input = NULL WHERE id = ?"
                db.execute(forgotten, (id,))
            return self._found(db, id)

        return self._even_if_full(changed)

    def delete(self, id: str, caller: Caller = OPERATOR) -> Job:
        """Forget a job, whatever its state is; raises UnknownJobError."""
        self.get(id, caller)

        def deleted(db: sqlite3.Connection) -> Job:
            job = self._found(db, id, caller)
            db.execute("DELETE FROM jobs WHERE id = ?", (id,))
            return job

        return self._even_if_full(deleted)

    def acquire(
        self,
        runner: LeaseHolder,
        on_given_up: Callable[[Job], None] = lambda job: None,
        models: Container[str] | None = None,
    ) -> Job | None:
        """Take the oldest job that waits, or whose server has died; ``None`` if there is none.

        What is found to be damaged, or has brought down too many servers, is failed, and
        ``on_given_up`` is called.

        Args:
            models: Models whose jobs are taken, beside those of no model; ``None``: all.
        """
        rows = [row for row in self._database.query(_OPEN, self.kind) if row["id"].isascii()]
        self._leases.forget({row["id"] for row in rows})
        for row in rows:
            is_mine = row["runner"] == runner.name  # it has lost track of it: see `finish`
            is_free = row["state"] == JobState.QUEUED or is_mine
            lease = (row["id"], row["runner"], row["num_beats"])
            if not is_free and not self._leases.is_expired(*lease):
                continue
            if models is not None and row["model"] and row["model"] not in models:
                continue
            runner.live()
            job = self._even_if_full(partial(self._claim, row, runner.name))
            if job is None:
                continue  # another caller was first
            if job.state is JobState.RUNNING:
                return job
            logger.error("the job %s: %s", job.id, job.fault.message if job.fault else "")
            on_given_up(job)
        return None

    def report(
        self, id: str, runner: LeaseHolder, progress: JobProgress, num_bytes: int | None = None
    ) -> bool:
        """Store a job's progress and renew its lease; ``False`` if another server holds it now."""
        with self._database.write() as db:
            done = db.execute(
                "UPDATE jobs SET progress = ?, num_bytes = max(num_bytes, ?),"
                " num_beats = num_beats + 1 WHERE id = ? AND runner = ? AND state = 'running'",
                (json.dumps(asdict(progress)), num_bytes or 0, id, runner.name),
            )
            return done.rowcount == 1

    def release(self, runner: LeaseHolder) -> None:
        """Let the next server have at once what this runner works on; that is no crash."""
        held = "runner = ? AND state = 'running'"
        if not self._database.query(f"SELECT id FROM jobs WHERE {held}", runner.name):
            return
        self._even_if_full(
            lambda db: db.execute(
                "UPDATE jobs SET state = 'queued', runner = NULL,"
                f" num_attempts = max(0, num_attempts - 1) WHERE {held}",
                (runner.name,),
            )
        )

    def finish(
        self, id: str, runner: LeaseHolder, outcome: JobResult | JobFault, progress: JobProgress
    ) -> bool:
        """End a job; ``False`` if it is another's now."""
        files = outcome.files if isinstance(outcome, JobResult) else ()
        is_done = isinstance(outcome, JobResult)
        values: dict[str, Any] = {
            "state": JobState.COMPLETED if is_done else JobState.FAILED,
            "result" if is_done else "fault": json.dumps(asdict(outcome)),
            "progress": json.dumps(asdict(progress)),
            "finished_s": int(time.time()),
            "runner": None,
            "input": None,
            "num_bytes": sum(file.num_bytes for file in files),
        }
        places = ", ".join(f"{name} = ?" for name in values)
        done = self._even_if_full(
            lambda db: (
                db.execute(
                    f"UPDATE jobs SET {places} WHERE id = ? AND runner = ? AND state = 'running'",
                    (*values.values(), id, runner.name),
                ).rowcount
            )
        )
        return done == 1

    def allowance(self, job: Job) -> tuple[int, str] | None:
        """Return how many bytes a job may take beside all others, and by which setting."""
        sums = partial(self._database.query, "SELECT total(num_bytes) FROM jobs WHERE id != ?")
        found = []
        if self.limits.max_bytes:
            ((others,),) = sums(job.id)
            found.append((self.limits.max_bytes - int(others), "jobs.max_gib"))
        if self.limits.max_owner_bytes:
            ((others,),) = self._database.query(
                "SELECT total(num_bytes) FROM jobs WHERE id != ? AND owner = ?",
                *(job.id, job.owner or ""),
            )
            found.append((self.limits.max_owner_bytes - int(others), "jobs.max_owner_gib"))
        return min(found, default=None)

    def ended_before(self, time_s: float) -> list[Job]:
        """Return jobs that have ended before a Unix time."""
        rows = self._database.query(
            f"SELECT {COLUMNS} FROM jobs WHERE kind = ? AND finished_s < ? AND typeof(id) = 'text'",
            *(self.kind, time_s),
        )
        return [job_of(row) for row in rows if row["id"].isascii()]

    def check(self) -> None:
        """Find out whether the jobs can be read; raises StorageError."""
        self._database.query("SELECT id FROM jobs LIMIT 1")

    def sweep(self) -> None:
        """Remove what dead runners have left behind; raises StorageError."""
        rows = self._database.query("SELECT runner FROM jobs WHERE runner IS NOT NULL")
        self._leases.sweep({row["runner"] for row in rows})

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def _claim(self, row: sqlite3.Row, runner: str, db: sqlite3.Connection) -> Job | None:
        """Take a job as it was seen, or fail it; ``None`` if it has changed since."""
        seen = (row["id"], row["state"], row["runner"], row["num_beats"])
        num_attempts = row["num_attempts"] if isinstance(row["num_attempts"], int) else 0
        fault: JobFault | None = None
        if num_attempts >= self.limits.max_crashes:
            fault = _crashed(num_attempts, self.kind)
        elif job_of(db.execute(_FIND, (row["id"], self.kind)).fetchone()).fault == UNREADABLE:
            fault = UNREADABLE
        if fault is None:
            num_changed = db.execute(_TAKE, (runner, *seen)).rowcount
        else:
            values = (int(time.time()), json.dumps(asdict(fault)), *seen)
            num_changed = db.execute(_GIVE_UP, values).rowcount
        return self._found(db, row["id"]) if num_changed else None

    def _check_limits(self, db: sqlite3.Connection, owner: str | None, num_bytes: int) -> None:
        limits = self.limits
        every = (limits.max_jobs, "jobs.max_jobs", limits.max_bytes, "jobs.max_gib", "1", ())
        owned = (
            *(limits.max_owner_jobs, "jobs.max_owner_jobs"),
            *(limits.max_owner_bytes, "jobs.max_owner_gib", "owner = ?", (owner or "",)),
        )
        for max_jobs, jobs_setting, max_bytes, bytes_setting, which, values in (every, owned):
            counted = f"SELECT count(*), total(num_bytes) FROM jobs WHERE {which}"
            ((num_jobs, num_used),) = db.execute(counted, values)
            if (max_jobs or which == "1") and num_jobs >= max_jobs:
                raise TooManyJobsError(max_jobs, jobs_setting)
            if max_bytes and num_used + num_bytes > max_bytes:
                raise StorageQuotaError(num_bytes, max_bytes - int(num_used), bytes_setting)

    def _found(self, db: sqlite3.Connection, id: str, caller: Caller = OPERATOR) -> Job:
        return _one(db.execute(_FIND, (_valid(id), self.kind)).fetchall(), id, caller, self.kind)

    def _even_if_full(self, action: Callable[[sqlite3.Connection], T]) -> T:
        """Make a change that must be possible on a full disk."""

        def made() -> T:
            with self._database.write() as db:
                return action(db)

        return self._database.reserve.within(made)


def _crashed(num_attempts: int, kind: JobKind) -> JobFault:
    again = "Resume it" if kind is JobKind.SPEECH else "Create it anew"
    return JobFault(
        message=f"The job was begun {num_attempts} times, and each time the server ended before it"
        f" could go on. {again} to try once more.",
        type="server_error",
        code="job_crashed",
    )


def _one(rows: list[sqlite3.Row], id: str, caller: Caller, kind: JobKind) -> Job:
    job = job_of(rows[0]) if rows else None
    if job is None or not caller.may_use(job.owner):
        raise UnknownJobError(id, kind.noun)
    return job


def _valid(id: str) -> str:
    """Return an id that SQLite can be asked for; half a character names no job."""
    return id.encode("utf-8", "replace").decode()
