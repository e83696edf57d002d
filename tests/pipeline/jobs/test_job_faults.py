"""Jobs whose disk, queue or server fails: nothing that was done is lost, nothing is left over."""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from antiphon.errors import EngineError
from antiphon.pipeline.jobs import runner as runner_module
from antiphon.pipeline.jobs.work import DiskBudget
from antiphon.stages.base import StageRequest
from antiphon.storage import disk_reserve as reserve_module
from antiphon.storage.errors import StorageError
from antiphon.storage.job import Job, JobLimits, JobState
from antiphon.storage.job_ledger import JobLedger
from antiphon.storage.leases import LeaseHolder
from antiphon.telemetry.logs import JsonFormatter, TextFormatter, request_id
from tests.pipeline.jobs.test_job_runner import NUM_SEGMENTS, Shop, expected_file, in_shop


def stopped_at(shop: Shop, num_segments: int) -> asyncio.Event:
    """Return what is set when so many segments have been opened before."""
    reached = asyncio.Event()
    shop.before_open = lambda request: reached.set() if len(shop.opened) == num_segments else None
    return reached


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def flip(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


@pytest.mark.parametrize(
    "damage", [flip, lambda content: content[:-3], lambda content: b""], ids=["bit", "cut", "empty"]
)
async def test_a_damaged_segment_is_spoken_again(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    expected = await expected_file()
    async with in_shop(tmp_path) as shop:
        reached = stopped_at(shop, 4)
        async with shop.runner() as runner:
            job = await runner.add("{}", shop.plan())
            await reached.wait()
        kept = sorted((tmp_path / "jobs" / job.id).glob("*/*.segment"))
        assert kept
        kept[0].write_bytes(damage(kept[0].read_bytes()))
        shop.opened.clear()
        shop.before_open = lambda request: None
        async with shop.runner():
            (file,) = await shop.result(job)
        assert file[44:] == expected
        assert len(shop.opened) == NUM_SEGMENTS - len(kept) + 1


async def test_a_job_is_given_back_at_once_and_no_other_is_taken(tmp_path: Path) -> None:
    async with in_shop(tmp_path) as shop:
        reached = stopped_at(shop, 2)
        async with shop.runner() as runner:
            job = await runner.add("{}", shop.plan())
            other = await runner.add("{}", shop.plan())
            await reached.wait()
            await runner.release()
            await runner.release()  # may be asked for again
            assert shop.model.fabric.num_open == 0
            states = [shop.ledger.get(each.id).state for each in (job, other)]
            assert states == [JobState.QUEUED, JobState.QUEUED]
            assert files_below(tmp_path / "jobs"), "what is done stays"


@pytest.mark.parametrize("moment", ["speaking", "handing over"])
async def test_a_job_that_fails_leaves_nothing(
    tmp_path: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with in_shop(tmp_path) as shop:

        def fail(request: StageRequest) -> None:
            if len(shop.opened) == 3 and moment == "speaking":
                raise EngineError("It broke.")

        shop.before_open = fail
        async with shop.runner() as runner:
            take = runner.media.move_in

            def take_in_vain(path: Path, key: str) -> int:
                take(path, key)
                raise OSError(28, "No space left on device")

            if moment == "handing over":
                monkeypatch.setattr(runner.media, "move_in", take_in_vain)
            job = await shop.until(await runner.add("{}", shop.plan()), JobState.FAILED)
            assert job.num_bytes == 0
            await runner.release()
            assert files_below(tmp_path / "jobs") == []
            assert files_below(tmp_path / "media") == []


async def test_a_result_is_on_the_disk_before_its_job_is_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    told: list[bool] = []
    fsync, finish = os.fsync, JobLedger.finish

    def noting_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def noting_finish(ledger: JobLedger, id: str, runner: LeaseHolder, *rest: Any) -> bool:
        (result,) = files_below(tmp_path / "media")
        folders = (result.parent, result.parent.parent, tmp_path)
        told.append({each.stat().st_ino for each in (result, *folders)} <= synced)
        return finish(ledger, id, runner, *rest)

    monkeypatch.setattr(os, "fsync", noting_fsync)
    monkeypatch.setattr(JobLedger, "finish", noting_finish)
    async with in_shop(tmp_path) as shop, shop.runner() as runner:
        await shop.result(await runner.add("{}", shop.plan()))
    assert told == [True]


async def test_work_that_breaks_off_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    num_calls = 0
    monkeypatch.setattr(runner_module, "_POLL_S", 0.0)
    async with in_shop(tmp_path) as shop:
        acquire = shop.ledger.acquire

        def breaking(*arguments: Any) -> Job | None:
            nonlocal num_calls
            num_calls += 1
            if num_calls == 2:
                raise RuntimeError("a bug")
            return acquire(*arguments)

        # Of this ledger alone: a server that tests of this process share asks its own now and then.
        monkeypatch.setattr(shop.ledger, "acquire", breaking)
        async with shop.runner() as runner:
            for _ in range(3):
                await shop.result(await runner.add("{}", shop.plan()))
            found = runner.metrics.job_faults.labels("runner")
            assert found._value.get() == 1


async def test_a_fault_that_quotes_the_text_is_logged_without_it(tmp_path: Path) -> None:
    lines: list[str] = []

    class Noting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            record.request_id = request_id.get()
            lines.extend(form.format(logging.makeLogRecord(vars(record))) for form in formatters)

    formatters = (TextFormatter(), JsonFormatter())
    handler = Noting()

    def fail(request: StageRequest) -> None:
        raise KeyError(" ".join(("the text", "of the job")))

    logging.getLogger("antiphon").addHandler(handler)
    try:
        async with in_shop(tmp_path) as shop, shop.runner() as runner:
            shop.before_open = fail
            job = await shop.until(await runner.add("{}", shop.plan()), JobState.FAILED)
            assert job.fault is not None
            assert job.fault.code == "internal_error"
    finally:
        logging.getLogger("antiphon").removeHandler(handler)
    assert any("KeyError" in line for line in lines)
    assert not [line for line in lines if "the text of the job" in line]


async def test_a_report_that_cannot_be_written_stops_no_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> bool:
        raise StorageError("The disk is busy.")

    monkeypatch.setattr(JobLedger, "report", failing)
    expected = await expected_file()
    async with in_shop(tmp_path) as shop:
        async with shop.runner() as runner:
            (file,) = await shop.result(await runner.add("{}", shop.plan()))
        assert file[44:] == expected


@pytest.mark.parametrize("reason", ["insufficient_storage", "storage_quota_exceeded"])
async def test_a_job_that_grows_beyond_its_room_fails(
    tmp_path: Path, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was predicted was too little, or others have filled the disk meanwhile."""
    is_quota = reason == "storage_quota_exceeded"
    num_free = 10_000_000

    def free_bytes(folder: Path) -> int:
        return num_free

    monkeypatch.setattr(reserve_module, "free_bytes", free_bytes)

    async with in_shop(tmp_path) as shop:
        limits = JobLimits(min_free_bytes=1_000_000, max_bytes=50_000 if is_quota else 0)
        shop.ledger.limits = limits
        async with shop.runner() as runner:
            job = shop.ledger.add("{}", None, 100)
            if not is_quota:
                num_free = 1_050_000
            job = await shop.until(job, JobState.FAILED)
            assert job.fault is not None
            assert job.fault.code == reason
            await runner.release()
            assert files_below(tmp_path / "jobs") == []


async def test_the_prediction_holds_for_what_is_made(tmp_path: Path) -> None:
    """For the toy model, which speaks as slowly as slow speech."""
    async with in_shop(tmp_path) as shop, shop.runner() as runner:
        plan = shop.plan()
        job = await runner.add("{}", plan)
        assert shop.ledger.get(job.id).num_bytes == plan.predicted_bytes()
        peak = 0
        spend = DiskBudget.spend

        def noting(budget: DiskBudget, num_bytes: int) -> None:
            nonlocal peak
            spend(budget, num_bytes)
            peak = budget.num_bytes

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DiskBudget, "spend", noting)
            (file,) = await shop.result(job)
        assert shop.ledger.get(job.id).num_bytes == len(file)
        assert len(file) < peak < plan.predicted_bytes()
