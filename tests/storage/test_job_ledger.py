"""The ledger of jobs: one runner at a time, and nobody's work is lost when a runner dies."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.storage import database
from antiphon.storage.errors import (
    JobStateError,
    StorageQuotaError,
    TooManyJobsError,
    UnknownJobError,
)
from antiphon.storage.job import (
    Job,
    JobFault,
    JobFile,
    JobKind,
    JobLimits,
    JobProgress,
    JobResult,
    JobState,
)
from antiphon.storage.job_database import SCHEMA
from antiphon.storage.job_ledger import JobLedger
from antiphon.storage.leases import LEASE_S
from antiphon.types import Caller

FILE = JobFile(key="jobs/x/0.wav", media_type="audio/wav", num_bytes=50, duration_s=1.0)
RESULT = JobResult(
    files=(FILE,), chapters=(), finish_reason="stop", input_tokens=1, output_tokens=2
)
FAULT = JobFault(message="It broke.", type="server_error", code="engine_error")
PROGRESS = JobProgress(fraction=0.5)
OLD_LAYOUT = """CREATE TABLE jobs (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, body TEXT NOT NULL, created_s INTEGER NOT NULL,
    finished_s INTEGER, progress TEXT NOT NULL, result TEXT, fault TEXT,
    owner TEXT, lent_until_s REAL)"""


class Clock:
    """Says what it is told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Generator[JobLedger, None, None]:
    ledger = JobLedger(tmp_path / "data", JobLimits(max_jobs=3), clock=clock)
    yield ledger
    ledger.close()


def written(folder: Path, sql: str, *values: object) -> None:
    """Write past the ledger."""
    db = sqlite3.connect(folder / SCHEMA.file_name)
    with db:
        db.execute(sql, values)
    db.close()


def test_a_folder_without_jobs_is_not_written(ledger: JobLedger, tmp_path: Path) -> None:
    assert ledger.page(10, None) == []
    assert ledger.acquire(ledger.runner()) is None
    for action in ("pause", "delete"):
        with pytest.raises(UnknownJobError):
            ledger.delete("job_x") if action == "delete" else ledger.change("job_x", action)
    assert not (tmp_path / "data").exists()


def test_jobs_are_acquired_in_order_and_once(ledger: JobLedger) -> None:
    first, second = ledger.add("1"), ledger.add("2")
    acquired = [ledger.acquire(ledger.runner()) for _ in range(3)]
    assert [job and job.id for job in acquired] == [first.id, second.id, None]
    assert ledger.get(first.id).state is JobState.RUNNING


def test_many_ask_and_each_job_goes_to_one(tmp_path: Path) -> None:
    ledger = JobLedger(tmp_path, JobLimits(max_jobs=8))
    ids = [ledger.add("x").id for _ in range(8)]
    runners = [ledger.runner() for _ in range(12)]
    with ThreadPoolExecutor(8) as pool:
        acquired = list(pool.map(ledger.acquire, runners))
    # Whoever finds all of them taken by quicker ones goes away, and asks again.
    acquired += [ledger.acquire(ledger.runner()) for _ in range(8)]
    assert sorted(job.id for job in acquired if job) == ids
    ledger.close()


def test_what_a_silent_runner_had_goes_to_the_next(ledger: JobLedger, clock: Clock) -> None:
    job = ledger.add("x")
    silent, other = ledger.runner(), ledger.runner()
    assert ledger.acquire(silent) is not None
    assert ledger.acquire(other) is None
    clock.now_s += LEASE_S - 1
    assert ledger.report(job.id, silent, PROGRESS), "it was busy, and lives"
    assert ledger.acquire(other) is None
    clock.now_s += LEASE_S - 1
    assert ledger.acquire(other) is None
    clock.now_s += 2
    taken = ledger.acquire(other)
    assert taken is not None
    assert taken.id == job.id
    assert not ledger.report(job.id, silent, JobProgress(fraction=0.5))
    assert not ledger.finish(job.id, silent, RESULT, PROGRESS)
    assert ledger.report(job.id, other, JobProgress(fraction=0.25))
    assert ledger.get(job.id).progress.fraction == 0.25


def test_a_clock_that_is_set_takes_no_job_away(
    ledger: JobLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, runner = ledger.add("x"), ledger.runner()
    assert ledger.acquire(runner) is not None
    later_s = time.time() + 10 * 365 * 86_400
    monkeypatch.setattr(time, "time", lambda: later_s)
    assert ledger.acquire(ledger.runner()) is None
    assert ledger.finish(job.id, runner, RESULT, PROGRESS)


DYING = """
import os, signal, sys
from pathlib import Path
from antiphon.storage.job_ledger import JobLedger
ledger = JobLedger(Path(sys.argv[1]))
assert ledger.acquire(ledger.runner()) is not None
os.kill(os.getpid(), signal.SIGKILL)
"""


def die_with_a_job(folder: Path) -> None:
    """Let a process acquire a job, and be killed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run([sys.executable, "-c", DYING, str(folder)], env=environment)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
def test_what_a_killed_process_had_is_free_at_once_and_given_up_the_second_time(
    tmp_path: Path,
) -> None:
    ledger = JobLedger(tmp_path, clock=Clock())  # time stands still
    poison, other = ledger.add("x"), ledger.add("y")
    die_with_a_job(tmp_path)
    assert ledger.get(poison.id).state is JobState.RUNNING
    die_with_a_job(tmp_path)
    given_up: list[Job] = []
    taken = ledger.acquire(ledger.runner(), given_up.append)
    assert taken is not None
    assert taken.id == other.id, "others go on"
    assert [job.id for job in given_up] == [poison.id]
    failed = ledger.get(poison.id)
    assert failed.state is JobState.FAILED
    assert failed.fault is not None
    assert failed.fault.code == "job_crashed"
    assert ledger.change(poison.id, "resume").state is JobState.QUEUED
    again = ledger.acquire(ledger.runner())
    assert again is not None
    assert again.id == poison.id
    ledger.close()


def test_a_job_that_is_given_back_was_no_crash(ledger: JobLedger) -> None:
    job = ledger.add("x")
    for _ in range(5):
        runner = ledger.runner()
        assert ledger.acquire(runner) is not None
        ledger.release(runner)
        assert ledger.get(job.id).state is JobState.QUEUED


@pytest.mark.parametrize(
    "damage",
    [
        "body = X'FF00'",
        "body = CAST(X'7BFF7D' AS TEXT)",
        "progress = '{'",
        "progress = '[1]'",
        "progress = '{\"other\": 1}'",
        "result = 'null'",
        "fault = '7'",
        "created_s = 'soon'",
        "num_attempts = 'many'",
        "owner = X'00'",
    ],
)
def test_a_row_that_cannot_be_read_stops_no_other(
    ledger: JobLedger, tmp_path: Path, damage: str
) -> None:
    damaged, other = ledger.add("x"), ledger.add("y")
    written(tmp_path / "data", f"UPDATE jobs SET {damage} WHERE id = ?", damaged.id)
    given_up: list[Job] = []
    taken = [ledger.acquire(ledger.runner(), given_up.append) for _ in range(3)]
    assert other.id in [job.id for job in taken if job]
    assert [job.id for job in ledger.page(5, None)] == [other.id, damaged.id]
    if "num_attempts" in damage:
        return  # nobody needs it to speak the job
    assert [job.id for job in given_up] == [damaged.id]
    for job in (*given_up, ledger.get(damaged.id)):
        assert job.fault is not None
        assert job.fault.code == "job_unreadable"
    with pytest.raises(JobStateError):
        ledger.change(damaged.id, "resume")
    ledger.delete(damaged.id)
    assert [job.id for job in ledger.page(5, None)] == [other.id]


@pytest.mark.parametrize("id", ["NULL", "X'00FF'", "CAST(X'6A6F62FF' AS TEXT)"])
def test_a_row_without_a_proper_id_stops_no_other(
    ledger: JobLedger, tmp_path: Path, id: str
) -> None:
    ledger.add("x")
    written(tmp_path / "data", f"UPDATE jobs SET id = {id}")
    other = ledger.add("y")
    taken = ledger.acquire(ledger.runner())
    assert taken is not None
    assert taken.id == other.id
    assert [job.id for job in ledger.page(5, None)] == [other.id]


def test_who_reads_does_not_wait_for_who_writes(
    ledger: JobLedger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "MAX_WAIT_S", 0.0)
    job = ledger.add("x")
    db = sqlite3.connect(tmp_path / "data" / SCHEMA.file_name, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    assert ledger.get(job.id) == job
    assert ledger.page(5, None) == [job]
    ledger.check()
    db.execute("ROLLBACK")
    db.close()


def test_jobs_of_the_first_layout_are_kept(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / SCHEMA.file_name)
    with db:
        db.execute(OLD_LAYOUT)
        row = ("job_1", "running", "{}", 5, '{"fraction": 0.5}', "dead", 1e12)
        names = "id, state, body, created_s, progress, owner, lent_until_s"
        db.execute(f"INSERT INTO jobs ({names}) VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    clock = Clock()
    ledger = JobLedger(tmp_path, clock=clock)
    (job,) = ledger.page(5, None)
    assert (job.id, job.owner, job.progress.fraction) == ("job_1", None, 0.5)
    assert ledger.acquire(ledger.runner()) is None
    clock.now_s += LEASE_S + 1
    assert ledger.acquire(ledger.runner()) is not None
    with pytest.raises(sqlite3.OperationalError):  # of a server that has not been replaced yet
        db.execute("UPDATE jobs SET owner = 'old', lent_until_s = 3")
    db.close()
    ledger.close()


def test_jobs_of_the_second_layout_are_of_speech(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / SCHEMA.file_name)
    with db:
        create = SCHEMA.migrations[0][0]
        without, _, _ = create.partition(", kind TEXT")
        db.execute(f"{without})")
        db.execute("PRAGMA user_version = 2")
        row = ("job_1", "queued", "{}", 5, '{"fraction": 0.5}')
        names = "id, state, body, created_s, progress"
        db.execute(f"INSERT INTO jobs ({names}) VALUES (?, ?, ?, ?, ?)", row)
    db.close()
    speech, videos = JobLedger(tmp_path), JobLedger(tmp_path, kind=JobKind.VIDEO)
    assert [job.id for job in speech.page(5, None)] == ["job_1"]
    assert videos.page(5, None) == []
    for each in (speech, videos):
        each.close()


def test_each_kind_has_its_own_queue_within_the_same_limits(
    ledger: JobLedger, tmp_path: Path
) -> None:
    videos = JobLedger(tmp_path / "data", ledger.limits, JobKind.VIDEO)
    text = ledger.add("text")
    first, second = (videos.add("video", input=content) for content in (b"image", None))
    assert first.id.startswith("video_")
    with pytest.raises(TooManyJobsError):
        videos.add("video")
    assert [job.id for job in ledger.page(5, None)] == [text.id]
    assert [job.id for job in videos.page(5, None)] == [second.id, first.id]
    assert [job.id for job in videos.page(1, first.id, oldest_first=True)] == [second.id]
    for action in (ledger.get, ledger.delete):
        with pytest.raises(UnknownJobError):
            action(first.id)
    runner = videos.runner()
    for expected in (first, second):
        job = videos.acquire(runner)
        assert job is not None
        assert job.id == expected.id
        assert videos.input(job.id) == (b"image" if job.id == first.id else None)
        assert videos.finish(job.id, runner, RESULT, PROGRESS)
        assert videos.input(job.id) is None
    assert videos.acquire(runner) is None
    now_s = time.time()
    assert {job.id for job in videos.ended_before(now_s + 5)} == {first.id, second.id}
    assert videos.ended_before(now_s - 60) == []
    assert ledger.ended_before(now_s + 5) == []
    videos.close()


def test_a_result_and_a_fault_are_kept(ledger: JobLedger) -> None:
    done, failed = ledger.add("1"), ledger.add("2")
    runner, other = ledger.runner(), ledger.runner()
    ledger.acquire(runner)
    ledger.acquire(other)
    assert ledger.finish(done.id, runner, RESULT, PROGRESS)
    assert ledger.finish(failed.id, other, FAULT, PROGRESS)
    assert ledger.get(done.id).result == RESULT
    assert ledger.get(failed.id).fault == FAULT
    resumed = ledger.change(failed.id, "resume")
    assert (resumed.fault, resumed.progress) == (None, JobProgress()), "it begins anew"
    assert ledger.acquire(runner) is not None


@pytest.mark.parametrize(
    ("actions", "state"),
    [
        (["pause"], JobState.PAUSED),
        (["pause", "pause"], JobState.PAUSED),
        (["pause", "resume"], JobState.QUEUED),
        (["cancel"], JobState.CANCELLED),
        (["pause", "cancel"], JobState.CANCELLED),
    ],
)
def test_jobs_change_their_state(ledger: JobLedger, actions: list[str], state: JobState) -> None:
    job = ledger.add("x")
    assert [ledger.change(job.id, action) for action in actions][-1].state is state
    assert (ledger.acquire(ledger.runner()) is not None) == (state is JobState.QUEUED)


def test_what_has_ended_stays_ended(ledger: JobLedger) -> None:
    job = ledger.add("x")
    ledger.change(job.id, "cancel")
    for action in ("pause", "resume"):
        with pytest.raises(JobStateError):
            ledger.change(job.id, action)
    with pytest.raises(UnknownJobError):
        ledger.change("job_none", "cancel")


def test_jobs_are_bounded_and_listed_in_pages(ledger: JobLedger) -> None:
    ids = [ledger.add(str(number)).id for number in range(3)]
    with pytest.raises(TooManyJobsError):
        ledger.add("x")
    assert [job.id for job in ledger.page(2, None)] == ids[:0:-1]
    assert [job.id for job in ledger.page(2, ids[1])] == ids[:1]
    ledger.delete(ids[0])
    with pytest.raises(UnknownJobError):
        ledger.get(ids[0])
    ledger.add("x")


def test_jobs_are_their_owners(ledger: JobLedger) -> None:
    jobs = {owner: ledger.add("x", owner) for owner in ("ann", "bob", None)}
    for owner, own in jobs.items():
        caller = Caller(owner)
        assert ledger.page(5, None, caller) == [own]
        assert ledger.get(own.id, caller) == own
        for other in jobs.values():
            if other != own:
                for attempt in (ledger.get, ledger.delete):
                    with pytest.raises(UnknownJobError):
                        attempt(other.id, caller)
                with pytest.raises(UnknownJobError):
                    ledger.change(other.id, "cancel", caller)
    admin = Caller("ann", is_admin=True)
    assert len(ledger.page(5, None, admin)) == 3
    assert ledger.delete(jobs["bob"].id, admin).owner == "bob"


def test_jobs_take_no_more_of_the_disk_than_they_may(tmp_path: Path) -> None:
    limits = JobLimits(max_bytes=300, max_owner_bytes=200, max_owner_jobs=3)
    ledger = JobLedger(tmp_path, limits)
    first = ledger.add("x", "ann", 150)
    with pytest.raises(StorageQuotaError, match="max_owner_gib"):
        ledger.add("x", "ann", 60)
    second = ledger.add("x", "bob", 150)
    with pytest.raises(StorageQuotaError, match="max_gib"):
        ledger.add("x", "cid", 1)
    assert ledger.allowance(first) == (150, "jobs.max_gib")
    runner = ledger.runner()
    ledger.acquire(runner)
    assert ledger.finish(first.id, runner, RESULT, PROGRESS)
    assert ledger.get(first.id).num_bytes == FILE.num_bytes, "a result counts as what it is"
    ledger.change(second.id, "cancel")
    for _ in range(2):
        ledger.add("x", "ann", 75)
    with pytest.raises(TooManyJobsError, match="max_owner_jobs"):
        ledger.add("x", "ann", 0)
    ledger.close()
