"""Speaks one job from its plan: segments that are kept, files that are handed over at the end."""

import asyncio
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from antiphon.concurrency import Workers
from antiphon.errors import StorageQuotaError
from antiphon.pipeline.speech.job_files import JobFiles
from antiphon.pipeline.speech.job_plan import JobPlan
from antiphon.pipeline.speech.segment_checkpoint import SegmentCheckpoints, SegmentDone
from antiphon.pipeline.speech.unspoken import joined
from antiphon.storage.blobs import BlobStore
from antiphon.storage.disk_reserve import check_free
from antiphon.storage.faults import storage_faults
from antiphon.storage.job import JobProgress, JobResult
from antiphon.types import AudioChunk, Ended, FinishReason, Usage


class DiskBudget:
    """How much of the disk a job has taken, and how much it may take; for any thread."""

    def __init__(
        self, folder: Path, min_free_bytes: int, allowance: tuple[int, str] | None = None
    ) -> None:
        """Leave ``min_free_bytes`` free; ``allowance`` is that of `JobLedger.allowance`."""
        self.num_bytes = 0
        self._folder = folder
        self._min_free_bytes = min_free_bytes
        self._allowance = allowance

    def spend(self, num_bytes: int) -> None:
        """Hear what is about to be written.

        Raises:
            StorageFullError: too little would be left free.
            StorageQuotaError: it is more than is allowed.
        """
        self.check(num_bytes)
        self.num_bytes += num_bytes

    def check(self, num_bytes: int) -> None:
        """Find out whether so much may be written besides; raises as `spend` does."""
        if self._allowance is not None and self.num_bytes + num_bytes > self._allowance[0]:
            raise StorageQuotaError(self.num_bytes + num_bytes, *self._allowance)
        with storage_faults():
            check_free(self._folder, num_bytes, self._min_free_bytes)


@dataclass(slots=True)
class JobAccount:
    """What has come of a job so far; what is read again after a restart is no step back."""

    progress: JobProgress
    budget: DiskBudget
    usage: Usage = Usage()
    reason: FinishReason = "stop"
    unspoken: tuple[str, ...] = ()
    share: float = 0.0  # of what comes before this part
    part_share: float = 1.0
    num_segments: int = 0
    audio_s: float = 0.0
    num_damaged: int = 0
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)

    def segment_done(self, done: SegmentDone) -> None:
        self.num_segments += 1
        self.num_damaged += done.was_damaged
        self.audio_s += done.audio_s
        fraction = min(1.0, self.share + self.part_share * done.fraction)
        if fraction >= self.progress.fraction:
            self.progress = JobProgress(
                fraction=fraction, num_segments=self.num_segments, audio_s=self.audio_s
            )
            self.has_changed.set()

    def ended(self, ended: Ended) -> None:
        self.usage += ended.usage
        self.reason = ended.reason if self.reason == "stop" else self.reason
        self.unspoken = joined(self.unspoken, ended.unspoken)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """Where a job works, and where its result goes.

    Attributes:
        folder: of this machine, of the job's own.
        media: keeps what is made.
        media_folder: the folder there.
        workers: threads for whatever blocks.
    """

    folder: Path
    media: BlobStore
    media_folder: str
    workers: Workers


async def speak_job(plan: JobPlan, place: JobPlace, account: JobAccount) -> JobResult:
    """Speak a job and keep what comes of it; what is there already is not spoken again.

    Raises:
        AntiphonError: it cannot be spoken, or not be kept.
    """
    workers, budget = place.workers, account.budget
    files = JobFiles(
        place.folder,
        plan.format,
        plan.sample_rate_hz,
        plan.channels,
        is_split=plan.is_split,
        spend=budget.spend,
    )
    num_characters = sum(len(part.text) for chapter in plan.chapters for part in chapter.parts)
    try:
        for index, chapter in enumerate(plan.chapters):
            await workers.run(files.begin_chapter)
            for number, part in enumerate(chapter.parts):
                account.part_share = len(part.text) / num_characters
                folder = place.folder / (f"{index}-{number}" if number else str(index))
                checkpoints = SegmentCheckpoints(
                    folder, workers, account.segment_done, spend=budget.spend
                )
                async with aclosing(part.open(checkpoints)) as events:
                    async for event in events:
                        if isinstance(event, AudioChunk):
                            await workers.run(files.write, event.samples)
                        else:
                            account.ended(event)
                account.share += account.part_share
            await workers.run(files.end_chapter, chapter.title)
        kept = await workers.run(files.hand_over, place.media, place.media_folder)
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
