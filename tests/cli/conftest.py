"""The command line in this process, and as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
from typer.testing import CliRunner, Result

from antiphon.cli.main import app

DEADLINE_S = 60

Run = Callable[..., Result]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tuple(os.environ):
        if name.startswith("ANTIPHON_"):
            monkeypatch.delenv(name)


@pytest.fixture
def run() -> Run:
    """Run ``antiphon`` with these arguments; ``input`` is its stdin."""

    def invoke(*arguments: str, input: str | None = None) -> Result:
        return CliRunner().invoke(app, arguments, input=input)

    return invoke


def popen(module: str, *arguments: str, group: int | None = None) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=group,
    )


@pytest.fixture
def start() -> Callable[..., "subprocess.Popen[str]"]:
    """Start ``antiphon`` with these arguments as a process; ``group`` 0 is one of its own."""
    return partial(popen, "antiphon")


@pytest.fixture(params=[0, pytest.param(2, marks=pytest.mark.slow)], ids="{} front ends".format)
def either_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Have servers of one process, and of several (slow: six processes are started)."""
    number: int = request.param
    monkeypatch.setenv("ANTIPHON_SERVER_FRONT_ENDS", str(number))
    return number
