"""A ledger's clock, what becomes of jobs in it, and a way to write past it."""

import sqlite3
from pathlib import Path

from antiphon.storage.job import JobFile, JobProgress, JobResult
from antiphon.storage.job_database import SCHEMA

FILE = JobFile(key="jobs/x/0.wav", media_type="audio/wav", num_bytes=50, duration_s=1.0)
RESULT = JobResult(
    files=(FILE,), chapters=(), finish_reason="stop", input_tokens=1, output_tokens=2
)
PROGRESS = JobProgress(fraction=0.5)


class Clock:
    """Says what it is told to."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def written(folder: Path, sql: str, *values: object) -> None:
    """Write past the ledger."""
    db = sqlite3.connect(folder / SCHEMA.file_name)
    with db:
        db.execute(sql, values)
    db.close()
