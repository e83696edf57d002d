"""The ledger of jobs: how many there may be, of how many bytes, and whom they are shown to."""

import time
from pathlib import Path

import pytest

from antiphon.contracts.types import Caller
from antiphon.storage.errors import StorageQuotaError, TooManyJobsError, UnknownJobError
from antiphon.storage.job import JobKind, JobLimits
from antiphon.storage.job_ledger import JobLedger
from tests.storage.ledgers import FILE, PROGRESS, RESULT


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
