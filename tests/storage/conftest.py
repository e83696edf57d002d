"""A ledger of jobs, and the clock that it reads."""

from collections.abc import Generator
from pathlib import Path

import pytest

from antiphon.storage.job import JobLimits
from antiphon.storage.job_ledger import JobLedger
from tests.storage.ledgers import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(tmp_path: Path, clock: Clock) -> Generator[JobLedger, None, None]:
    ledger = JobLedger(tmp_path / "data", JobLimits(max_jobs=3), clock=clock)
    yield ledger
    ledger.close()
