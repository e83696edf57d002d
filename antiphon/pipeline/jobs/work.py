"""Interface between a job runner and its work: disk space, folder, progress."""

import asyncio
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from antiphon.concurrency import Workers
from antiphon.storage.blobs import BlobStore
from antiphon.storage.disk_reserve import check_free
from antiphon.storage.errors import StorageQuotaError
from antiphon.storage.faults import storage_faults
from antiphon.storage.job import JobProgress, JobResult


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
        """Reserve space for bytes that are about to be written.

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
    """How far a job is, and what it has taken.

    Attributes:
        num_damaged: pieces kept before a restart that were not as they had been written.
        has_changed: set when there is progress to be reported.
    """

    progress: JobProgress
    budget: DiskBudget
    num_damaged: int = 0
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)

    def proceed(self, progress: JobProgress) -> None:
        """Note progress; what is done again after a restart is no step back."""
        if progress.fraction >= self.progress.fraction:
            self.progress = progress
            self.has_changed.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlace:
    """Where a job works, and where its result goes.

    Attributes:
        media_folder: the folder there.
    """

    folder: Path
    media: BlobStore
    media_folder: str
    workers: Workers


class JobWork(Protocol):
    """A job's body, read: what there is to do."""

    @property
    def model_name(self) -> str:
        """The served name of the model that does it."""

    def predicted_bytes(self) -> int:
        """Return how much of the disk it may take at most; blocks."""

    async def run(self, place: JobPlace, account: JobAccount) -> JobResult:
        """Do the work and keep its result; finished parts are reused; raises AntiphonError."""
