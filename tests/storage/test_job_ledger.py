"""The ledger of jobs: one runner at a time, and nobody's work is lost when a runner dies."""

import os
import signal
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.storage import database
from antiphon.storage.errors import JobStateError, UnknownJobError
from antiphon.storage.job import Job, JobFault, JobKind, JobLimits, JobProgress, JobState
from antiphon.storage.job_database import SCHEMA
from antiphon.storage.job_ledger import JobLedger
from antiphon.storage.leases import LEASE_S
from tests.storage.ledgers import PROGRESS, RESULT, Clock, written

FAULT = JobFault(message="It broke.", type="server_error", code="engine_error")
OLD_LAYOUT = """CREATE TABLE jobs (
    id TEXT PRIMARY KEY, state TEXT NOT NULL, body TEXT NOT NULL, created_s INTEGER NOT NULL,
    finished_s INTEGER, progress TEXT NOT NULL, result TEXT, fault TEXT,
    owner TEXT, lent_until_s REAL)"""


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


def test_jobs_of_the_third_layout_are_of_any_model(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / SCHEMA.file_name)
    with db:
        without, _, _ = SCHEMA.migrations[0][0].partition(", model TEXT")
        db.execute(f"{without})")
        db.execute("PRAGMA user_version = 3")
        names = "id, state, body, created_s, progress"
        row = ("job_1", "queued", "{}", 5, "{}")
        db.execute(f"INSERT INTO jobs ({names}) VALUES (?, ?, ?, ?, ?)", row)
    db.close()
    ledger = JobLedger(tmp_path)
    job = ledger.acquire(ledger.runner(), models=("toy",))
    assert job is not None
    ledger.close()


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
