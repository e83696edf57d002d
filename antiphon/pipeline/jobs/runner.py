"""Does long work in the background, one job at a time, and goes on after a restart.

What a job keeps on disk before it ends is read by the runner that resumes it, after a pause or a
restart: the segments of a text, of which the rest is spoken. Work that keeps nothing begins anew.
With the job's seed the result is the same. A failed job leaves no files behind.
"""

import asyncio
import logging
import shutil
import time
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from antiphon.concurrency import Workers, cancel_and_wait
from antiphon.config import Settings
from antiphon.contracts.types import OPERATOR, Caller
from antiphon.errors import AntiphonError
from antiphon.pipeline.jobs.work import DiskBudget, JobAccount, JobPlace, JobWork
from antiphon.storage.blobs import BlobStore
from antiphon.storage.errors import StorageError, UnknownJobError
from antiphon.storage.job import Job, JobFault, JobResult, JobState
from antiphon.storage.job_database import UNREADABLE
from antiphon.storage.job_ledger import JobLedger
from antiphon.storage.leases import LEASE_S
from antiphon.telemetry.logs import request_scope
from antiphon.telemetry.metrics import Metrics

logger = logging.getLogger(__name__)

MEDIA_FOLDER = "jobs"

_WITH_SEGMENTS = (JobState.QUEUED, JobState.RUNNING, JobState.PAUSED)
_POLL_S = 2.0
_EXPIRY_S = 60.0
_NUM_THREADS = 2


def job_media(settings: Settings) -> BlobStore:
    """Return the store of jobs' results: that of other media, unless the settings name another.

    Raises:
        SettingsError: that cannot be used.
    """
    if url := settings.jobs.media_url:
        return BlobStore(url, "jobs.media_url")
    if url := settings.media.output_fs_url:
        return BlobStore(f"{url.rstrip('/')}/{MEDIA_FOLDER}", "media.output_fs_url")
    return BlobStore(settings.data.folder / "media")


class JobRunner:
    """Works on the jobs of a data folder, beside the runners of other servers.

    Attributes:
        ledger: the jobs; blocks, see `workers`.
        workers: threads for whatever blocks here.
        changed: set, and replaced, when a job of this server has changed.
    """

    def __init__(
        self,
        ledger: JobLedger,
        media: BlobStore,
        folder: Path,
        plan: Callable[[Job], JobWork],
        metrics: Metrics | None = None,
        *,
        models: Container[str] | None = None,
        retention_s: float = 0.0,
    ) -> None:
        """Work in a folder of this machine.

        Args:
            plan: reads a job's body; called in worker threads.
            models: Models whose jobs it works on, by served name; ``None``: all.
            retention_s: jobs are deleted so long after their end; 0: never.
        """
        self.ledger = ledger
        self.media = media
        self.workers = Workers("jobs", _NUM_THREADS)
        self.changed = asyncio.Event()
        self.is_stopping = False
        self._folder = folder
        self._plan = plan
        self._models = models
        self._retention_s = retention_s
        self._next_expiry_s = 0.0
        self.metrics = metrics or Metrics()
        self._runner = ledger.runner()
        self._wake = asyncio.Event()
        self._running: tuple[str, asyncio.Task[JobResult]] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work, on the loop that this is called on."""
        self._task = asyncio.create_task(self._work_for_ever(), name="jobs")

    async def release(self) -> None:
        """Give the job under way back at once, and take no other; may be called again."""
        if not self.is_stopping and self._task is not None:
            self._task.cancel()
        self.is_stopping = True
        self._tell()
        if self._task is None:
            return
        await asyncio.wait([self._task])
        try:
            await self.workers.run(self.ledger.release, self._runner)
        except StorageError as error:
            logger.error("jobs: %s", error.message)
        self._runner.end()

    async def close(self) -> None:
        """Stop; the next runner resumes a job under way."""
        await self.release()
        self.workers.close()
        self.ledger.close()

    async def change(self, id: str, action: str, caller: Caller = OPERATOR) -> Job:
        """Pause, resume or cancel a job; see `JobLedger.change`."""
        job = await self.workers.run(self.ledger.change, id, action, caller)
        await self._drop(id)
        if job.state is JobState.CANCELLED:
            await self.workers.run(self._forget, job)
        self._tell()
        return job

    async def delete(self, id: str, caller: Caller = OPERATOR) -> Job:
        """Forget a job and all that it has made; a full disk is no hindrance.

        Raises:
            UnknownJobError: there is none of this id, or it is another caller's.
            StorageError: its files could not be removed.
        """
        job = await self.workers.run(self.ledger.get, id, caller)
        if job.state.is_final:  # no runner writes; a full disk needs its space
            await self.workers.run(self._forget, job)
        job = await self.workers.run(self.ledger.delete, id, caller)
        await self._drop(id)
        await self.workers.run(self._forget, job)
        self._tell()
        return job

    async def add(
        self,
        job_body: str,
        work: JobWork,
        owner: str | None = None,
        input: bytes | None = None,
    ) -> Job:
        """Put a job at the end of the queue, if the disk will hold it.

        Args:
            input: a file that it needs; see `JobLedger.input`.

        Raises:
            InvalidRequestError: a pause is wrong, or there are more jobs, or larger ones, than
                there may be.
            StorageFullError: too little of the disk is free.
            StorageError: it could not be kept.
        """
        num_bytes = await self.workers.run(work.predicted_bytes)
        budget = DiskBudget(self._folder, self.ledger.limits.min_free_bytes)
        await self.workers.run(budget.check, num_bytes)
        row = (job_body, owner, num_bytes, input, work.model_name)
        job = await self.workers.run(self.ledger.add, *row)
        self._tell()
        return job

    async def _drop(self, id: str) -> None:
        """Stop working on a job, if that is what this server does."""
        if self._running is not None and self._running[0] == id:
            await cancel_and_wait(self._running[1])

    def _tell(self) -> None:
        self._wake.set()
        self.changed.set()
        self.changed = asyncio.Event()

    async def _work_for_ever(self) -> None:
        """Work, and begin anew if that should ever end: one fault is not the end of all jobs."""
        while True:
            work = asyncio.create_task(self._work(), name="jobs at work")
            try:
                await asyncio.wait([work])
            except asyncio.CancelledError:
                await cancel_and_wait(work)
                raise
            error = None if work.cancelled() else work.exception()
            logger.error("work on jobs has ended, and begins anew", exc_info=error)
            self.metrics.job_faults.labels("runner").inc()
            await asyncio.sleep(_POLL_S)

    async def _work(self) -> None:
        await self.workers.run(self._sweep)
        while True:
            self._wake.clear()
            await self.workers.run(self._expire)
            job = await self._acquired()
            if job is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await self._wake.wait()
                continue
            with request_scope(job.id):  # faults in it are logged without what they quote
                await self._work_on(job)
            self._tell()

    def _expire(self) -> None:
        """Delete what was kept for long enough, now and then."""
        if not self._retention_s or time.monotonic() < self._next_expiry_s:
            return
        self._next_expiry_s = time.monotonic() + min(_EXPIRY_S, self._retention_s)
        try:
            for job in self.ledger.ended_before(time.time() - self._retention_s):
                self._forget(job)  # first: a job whose files stay is found again
                with suppress(UnknownJobError):
                    self.ledger.delete(job.id)
        except StorageError as error:
            logger.warning("jobs: %s", error.message)

    async def _acquired(self) -> Job | None:
        try:
            acquired = partial(self.ledger.acquire, self._runner, self._given_up, self._models)
            return await self.workers.run(acquired)
        except StorageError as error:
            logger.warning("jobs: %s", error.message)
            return None

    def _given_up(self, job: Job) -> None:
        assert job.fault is not None, "it has been failed"
        self.metrics.job_faults.labels(job.fault.code).inc()
        self._forget(job)

    async def _work_on(self, job: Job) -> None:
        """Work on a job until it ends or is taken away; whatever fails is its own affair."""
        min_free_bytes = self.ledger.limits.min_free_bytes
        try:
            allowance = await self.workers.run(self.ledger.allowance, job)
        except StorageError:
            allowance = None
        account = JobAccount(job.progress, DiskBudget(self._folder, min_free_bytes, allowance))
        work = asyncio.create_task(self._done(job, account))
        reports = asyncio.create_task(self._report(job, account))
        self._running = job.id, work
        try:
            await asyncio.wait((work, reports), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the server stops
            await cancel_and_wait(work, reports)
            raise
        finally:
            self._running = None
        await cancel_and_wait(work, reports)
        self.metrics.job_faults.labels("segment").inc(account.num_damaged)
        if work.cancelled():  # it has been paused, given up, or is another's by now
            return
        try:
            if (error := work.exception()) is not None:
                await self.workers.run(self._failed, job, account, error)
            else:
                await self.workers.run(self._finish, job, account, work.result())
        except StorageError as error:
            logger.error("the job %s: %s", job.id, error.message)

    async def _done(self, job: Job, account: JobAccount) -> JobResult:
        work = await self.workers.run(self._plan, job)
        place = JobPlace(
            folder=self._folder / job.id,
            media=self.media,
            media_folder=_media_folder(job),
            workers=self.workers,
        )
        return await work.run(place, account)

    def _finish(self, job: Job, account: JobAccount, result: JobResult) -> None:
        progress = replace(account.progress, fraction=1.0)
        if self.ledger.finish(job.id, self._runner, result, progress):
            self.metrics.jobs_ended.labels("completed").inc()
            shutil.rmtree(self._folder / job.id, ignore_errors=True)
            return
        try:
            self.ledger.get(job.id)
        except UnknownJobError:  # it was deleted, and then its files were written
            self._forget(job)

    async def _report(self, job: Job, account: JobAccount) -> None:
        """Send heartbeats with the job's progress until another runner owns it."""
        is_ours = True
        while is_ours:
            account.has_changed.clear()
            report = (job.id, self._runner, account.progress, account.budget.num_bytes)
            try:
                is_ours = await self.workers.run(self.ledger.report, *report)
            except StorageError as error:  # a full disk, maybe: the work itself will find out
                logger.warning("the job %s: %s", job.id, error.message)
            self.changed.set()
            self.changed = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(LEASE_S / 3):
                    await account.has_changed.wait()

    def _failed(self, job: Job, account: JobAccount, error: BaseException) -> None:
        if isinstance(error, AntiphonError):
            fault = JobFault(
                message=error.message, type=error.type, code=error.code, param=error.param
            )
            logger.info("the job %s of %s failed: %s", job.id, job.owner or "-", fault.code)
        else:
            fault = JobFault(
                message="Internal server error.", type="server_error", code="internal_error"
            )
            logger.error("the job %s failed", job.id, exc_info=error)
        if fault.code == UNREADABLE.code:
            self.metrics.job_faults.labels(fault.code).inc()
        if self.ledger.finish(job.id, self._runner, fault, account.progress):
            self.metrics.jobs_ended.labels("failed").inc()
            self._forget(job)

    def _forget(self, job: Job) -> None:
        shutil.rmtree(self._folder / job.id, ignore_errors=True)
        try:
            self.media.delete_folder(_media_folder(job))
        except OSError as error:
            raise StorageError("The files of the job could not be removed.") from error

    def _sweep(self) -> None:
        """Remove what a crash has left behind."""
        with suppress(OSError, StorageError):
            self.ledger.sweep()
            for folder in self._folder.iterdir():
                try:
                    is_needed = self.ledger.get(folder.name).state in _WITH_SEGMENTS
                except UnknownJobError:
                    is_needed = False
                if not is_needed:
                    shutil.rmtree(folder, ignore_errors=True)


def _media_folder(job: Job) -> str:
    return f"{MEDIA_FOLDER}/{job.id}"
