"""``antiphon bench`` in this process, and as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
from typer.testing import CliRunner, Result

from antiphon.cli.main import app
from tests.cli.conftest import Run


@pytest.fixture(autouse=True)
def _no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tuple(os.environ):
        if name.startswith("ANTIPHON_"):
            monkeypatch.delenv(name)


@pytest.fixture
def run(bench_command: None) -> Run:
    """Run ``antiphon bench`` with these arguments."""

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["bench", *arguments])

    return invoke


@pytest.fixture
def start() -> Callable[..., "subprocess.Popen[str]"]:
    """Start ``antiphon bench`` as a process; ``group`` 0 is one of its own."""

    def popen(*arguments: str, group: int | None = None) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "antiphon_bench", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=group,
        )

    return popen
