"""``antiphon bench`` in this process, and as a process of its own."""

import subprocess
from collections.abc import Callable
from functools import partial

import pytest
from typer.testing import CliRunner, Result

from antiphon.cli.main import app
from tests.cli.conftest import Run, no_settings_from_outside, popen

__all__ = ["no_settings_from_outside"]


@pytest.fixture
def run(bench_command: None) -> Run:

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(app, ["bench", *arguments])

    return invoke


@pytest.fixture
def start() -> Callable[..., "subprocess.Popen[str]"]:
    """Start ``antiphon bench`` as a process; ``group`` 0 is one of its own."""
    return partial(popen, "antiphon_bench")
