"""The ledger of jobs: one owner at a time, and nobody's work is lost when an owner dies."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.errors import JobStateError, TooManyJobsError, UnknownJobError
from antiphon.media import ledger as ledger_module
from antiphon.media.job import JobFault, JobProgress, JobResult, JobState
from antiphon.media.ledger import JobLedger

RESULT = JobResult(files=(), chapters=(), finish_reason="stop", input_tokens=1, output_tokens=2)
FAULT = JobFault(message="It broke.", type="server_error", code="engine_error")


@pytest.fixture
def ledger(tmp_path: Path) -> JobLedger:
    return JobLedger(tmp_path / "data", max_jobs=3)


def test_a_folder_without_jobs_is_not_written(ledger: JobLedger, tmp_path: Path) -> None:
    assert ledger.page(10, None) == []
    assert ledger.borrow("me") is None
    assert not (tmp_path / "data").exists()


def test_jobs_are_borrowed_in_order_and_once(ledger: JobLedger) -> None:
    first, second = ledger.add("1"), ledger.add("2")
    borrowed = [ledger.borrow(owner) for owner in ("a", "b", "c")]
    assert [job and job.id for job in borrowed] == [first.id, second.id, None]
    assert ledger.get(first.id).state is JobState.RUNNING


def test_many_ask_and_each_job_goes_to_one(tmp_path: Path) -> None:
    ledger = JobLedger(tmp_path, max_jobs=8)
    ids = [ledger.add("x").id for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        borrowed = list(pool.map(ledger.borrow, map(str, range(12))))
    assert sorted(job.id for job in borrowed if job) == ids


def test_what_a_dead_server_had_goes_to_the_next(
    ledger: JobLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = ledger.add("x")
    monkeypatch.setattr(ledger_module, "LOAN_S", -1.0)
    assert ledger.borrow("dead") is not None
    monkeypatch.undo()
    taken = ledger.borrow("alive")
    assert taken is not None
    assert taken.id == job.id
    assert not ledger.report(job.id, "dead", JobProgress(fraction=0.5))
    assert not ledger.finish(job.id, "dead", RESULT)
    assert ledger.report(job.id, "alive", JobProgress(fraction=0.25))
    assert ledger.get(job.id).progress.fraction == 0.25


def test_a_result_and_a_fault_are_kept(ledger: JobLedger) -> None:
    done, failed = ledger.add("1"), ledger.add("2")
    ledger.borrow("me")
    ledger.borrow("me")
    assert ledger.finish(done.id, "me", RESULT)
    assert ledger.finish(failed.id, "me", FAULT)
    assert ledger.get(done.id).result == RESULT
    assert ledger.get(failed.id).fault == FAULT
    assert ledger.change(failed.id, "resume").fault is None
    assert ledger.borrow("me") is not None


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
    assert (ledger.borrow("me") is not None) == (state is JobState.QUEUED)


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
