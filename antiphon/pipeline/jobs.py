"""Speaks long texts in the background, one job at a time, and goes on after a restart.

A job's segments are kept on disk until it ends. Whoever takes it up again, after a pause or a
restart, reads those that are there and speaks the rest: with its seed the result is the same.
"""

import asyncio
import logging
import secrets
import shutil
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from antiphon.audio.encode import AudioFormat
from antiphon.concurrency import Workers
from antiphon.errors import AntiphonError, StorageError, UnknownJobError
from antiphon.media.job import Job, JobFault, JobProgress, JobResult, JobState
from antiphon.media.ledger import LOAN_S, JobLedger
from antiphon.media.store import MediaStore
from antiphon.pipeline.job_files import JobFiles
from antiphon.pipeline.journey import SegmentSource
from antiphon.pipeline.kept_segments import KeptSegments, SegmentDone
from antiphon.pipeline.unspoken import joined
from antiphon.types import AudioChunk, Ended, FinishReason, SpeechStream, Usage

logger = logging.getLogger(__name__)

MEDIA_FOLDER = "jobs"

_WITHOUT_SEGMENTS = (JobState.COMPLETED, JobState.CANCELLED)
_POLL_S = 2.0
_NUM_THREADS = 2


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of a job.

    Attributes:
        title: for people.
        num_characters: of its text.
        open: begins to speak it.
    """

    title: str | None
    num_characters: int
    open: Callable[[SegmentSource], SpeechStream]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """A job's body, read."""

    chapters: tuple[Chapter, ...]
    format: AudioFormat
    sample_rate_hz: int
    is_split: bool


@dataclass(slots=True)
class _Account:
    """What has come of a job so far; what is read again after a restart is no step back."""

    progress: JobProgress
    usage: Usage = Usage()
    reason: FinishReason = "stop"
    unspoken: tuple[str, ...] = ()
    share: float = 0.0  # of the chapters before this one
    chapter_share: float = 1.0
    num_segments: int = 0
    audio_s: float = 0.0
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)

    def segment_done(self, done: SegmentDone) -> None:
        self.num_segments += 1
        self.audio_s += done.audio_s
        fraction = min(1.0, self.share + self.chapter_share * done.fraction)
        if fraction >= self.progress.fraction:
            self.progress = JobProgress(
                fraction=fraction, num_segments=self.num_segments, audio_s=self.audio_s
            )
            self.has_changed.set()

    def ended(self, ended: Ended) -> None:
        usage = ended.usage
        self.usage = Usage(
            self.usage.input_tokens + usage.input_tokens,
            self.usage.output_tokens + usage.output_tokens,
        )
        self.reason = ended.reason if self.reason == "stop" else self.reason
        self.unspoken = joined(self.unspoken, ended.unspoken)


class JobRunner:
    """Works on the jobs of a data folder, beside the runners of other servers.

    Attributes:
        ledger: the jobs; blocks, see `workers`.
        media: what they have made; blocks likewise.
        workers: threads for whatever blocks here.
        changed: set, and replaced, when a job of this server has changed.
    """

    def __init__(
        self,
        ledger: JobLedger,
        media: MediaStore,
        folder: Path,
        plan: Callable[[Job], JobPlan],
    ) -> None:
        """Work in a folder of this machine; ``plan`` reads a job's body."""
        self.ledger = ledger
        self.media = media
        self.workers = Workers("jobs", _NUM_THREADS)
        self.changed = asyncio.Event()
        self._folder = folder
        self._plan = plan
        self._owner = secrets.token_hex(8)
        self._wake = asyncio.Event()
        self._running: tuple[str, asyncio.Task[JobResult]] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work, on the loop that this is called on."""
        self._task = asyncio.create_task(self._work_for_ever(), name="jobs")

    async def close(self) -> None:
        """Stop; a job under way is left to whoever comes next."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self.workers.close()

    async def change(self, id: str, action: str) -> Job:
        """Pause, resume or cancel a job; see `JobLedger.change`."""
        job = await self.workers.run(self.ledger.change, id, action)
        await self._drop(id)
        if job.state is JobState.CANCELLED:
            await self._forget_segments(id)
        self._tell()
        return job

    async def delete(self, id: str) -> Job:
        """Forget a job and all that it has made.

        Raises:
            UnknownJobError: there is none of this id.
            StorageError: its files could not be removed.
        """
        job = await self.workers.run(self.ledger.delete, id)
        await self._drop(id)
        await self._forget_segments(id)
        await self.workers.run(self._delete_media, id)
        self._tell()
        return job

    async def add(self, body: str) -> Job:
        """Put a job at the end of the queue; see `JobLedger.add`."""
        job = await self.workers.run(self.ledger.add, body)
        self._tell()
        return job

    async def _drop(self, id: str) -> None:
        """Stop working on a job, if that is what this server does."""
        if self._running is not None and self._running[0] == id:
            task = self._running[1]
            task.cancel()
            await asyncio.wait([task])

    def _tell(self) -> None:
        self._wake.set()
        self.changed.set()
        self.changed = asyncio.Event()

    async def _work_for_ever(self) -> None:
        await self.workers.run(self._sweep)
        while True:
            self._wake.clear()
            job = await self._borrowed()
            if job is None:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_POLL_S):
                        await self._wake.wait()
                continue
            await self._work_on(job)
            self._tell()

    async def _borrowed(self) -> Job | None:
        try:
            return await self.workers.run(self.ledger.borrow, self._owner)
        except StorageError as error:
            logger.warning("jobs: %s", error.message)
            return None

    async def _work_on(self, job: Job) -> None:
        """Work on a job until it ends or is taken away; whatever fails is its own affair."""
        account = _Account(job.progress)
        work = asyncio.create_task(self._spoken(job, account))
        reports = asyncio.create_task(self._report(job, account))
        self._running = job.id, work
        try:
            await asyncio.wait((work, reports), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # the server stops
            await _ended(work, reports)
            with suppress(StorageError):
                await self.workers.run(self.ledger.give_back, job.id, self._owner)
            raise
        finally:
            self._running = None
        await _ended(work, reports)
        if work.cancelled():  # it has been paused, given up, or is another's by now
            return
        try:
            if (error := work.exception()) is not None:
                await self._failed(job, error)
            else:
                await self.workers.run(self._finish, job, account, work.result())
        except StorageError as error:
            logger.error("the job %s: %s", job.id, error.message)

    async def _spoken(self, job: Job, account: _Account) -> JobResult:
        """Speak a job and keep what comes of it."""
        plan = self._plan(job)
        folder = self._folder / job.id
        files = JobFiles(folder, plan.format, plan.sample_rate_hz, is_split=plan.is_split)
        num_characters = sum(chapter.num_characters for chapter in plan.chapters)
        try:
            for index, chapter in enumerate(plan.chapters):
                account.chapter_share = chapter.num_characters / num_characters
                source = KeptSegments(folder / str(index), self.workers, account.segment_done)
                await self.workers.run(files.begin_chapter)
                async with aclosing(chapter.open(source)) as events:
                    async for event in events:
                        if isinstance(event, AudioChunk):
                            await self.workers.run(files.write, event.samples)
                        else:
                            account.ended(event)
                await self.workers.run(files.end_chapter, chapter.title)
                account.share += account.chapter_share
            kept = await self.workers.run(files.hand_over, self.media, f"{MEDIA_FOLDER}/{job.id}")
        finally:
            files.close()
        return JobResult(
            files=kept,
            chapters=tuple(files.chapters),
            finish_reason=account.reason,
            input_tokens=account.usage.input_tokens,
            output_tokens=account.usage.output_tokens,
            unspoken=account.unspoken,
        )

    def _finish(self, job: Job, account: _Account, result: JobResult) -> None:
        progress = replace(account.progress, fraction=1.0)
        self.ledger.report(job.id, self._owner, progress)
        if self.ledger.finish(job.id, self._owner, result):
            shutil.rmtree(self._folder / job.id, ignore_errors=True)

    async def _report(self, job: Job, account: _Account) -> None:
        """Renew the loan and tell how far the job is; returns when it is another's."""
        is_ours = True
        while is_ours:
            account.has_changed.clear()
            report = partial(self.ledger.report, job.id, self._owner, account.progress)
            is_ours = await self.workers.run(report)
            self.changed.set()
            self.changed = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOAN_S / 3):
                    await account.has_changed.wait()

    async def _failed(self, job: Job, error: BaseException) -> None:
        if isinstance(error, AntiphonError):
            fault = JobFault(
                message=error.message, type=error.type, code=error.code, param=error.param
            )
            logger.info("the job %s failed: %s", job.id, error.message)
        else:
            fault = JobFault(
                message="Internal server error.", type="server_error", code="internal_error"
            )
            logger.error("the job %s failed", job.id, exc_info=error)
        await self.workers.run(self.ledger.finish, job.id, self._owner, fault)

    async def _forget_segments(self, id: str) -> None:
        await self.workers.run(partial(shutil.rmtree, self._folder / id, ignore_errors=True))

    def _sweep(self) -> None:
        """Remove segments that a crash has left behind."""
        with suppress(OSError, StorageError):
            for folder in self._folder.iterdir():
                try:
                    is_needed = self.ledger.get(folder.name).state not in _WITHOUT_SEGMENTS
                except UnknownJobError:
                    is_needed = False
                if not is_needed:
                    shutil.rmtree(folder, ignore_errors=True)

    def _delete_media(self, id: str) -> None:
        try:
            self.media.delete(f"{MEDIA_FOLDER}/{id}")
        except OSError as error:
            raise StorageError("The files of the job could not be removed.") from error


async def _ended(*tasks: "asyncio.Task[Any]") -> None:
    """Stop tasks, and let nobody miss what they have raised."""
    for task in tasks:
        task.cancel()  # no-op if it has ended
    await asyncio.wait(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.debug("a job's task ended: %r", error)
