"""Processes that tests of the benchmarks start find them, installed or not."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[2] / "bench"


@pytest.fixture(scope="session", autouse=True)
def _processes_find_the_benchmarks() -> Generator[None, None, None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setenv("PYTHONPATH", str(BENCH), prepend=os.pathsep)
        yield
