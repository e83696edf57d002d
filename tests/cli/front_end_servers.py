"""Servers of several front ends, as the command line starts them, and speech of them."""

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.cli.conftest import DEADLINE_S
from tests.cli.test_serve import serving
from tests.front_ends import ServerProcesses

NUM = 3
SPEECH = "/v1/audio/speech"
LONG = {"input": "Hello there. " * 7000, "response_format": "wav"}
SHORT = {"input": "Hello there.", "response_format": "wav", "seed": 3}


def popen(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "antiphon", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def front_ends(
    number: int, *arguments: str, key: str = "none", model: str = "toy"
) -> Generator[ServerProcesses, None, None]:
    """Run a server of so many front ends; it ends well if it still runs."""
    arguments = ("--front-ends", str(number), *arguments)
    with serving(popen, *arguments, model=model) as (process, url):
        running = ServerProcesses(process, url, key)
        running.wait_for(number + 2)
        yield running
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=DEADLINE_S)
            assert process.returncode == 0
            assert "Traceback" not in errors


def speak(server: ServerProcesses, **more: Any) -> bytes:
    answer = httpx.post(server.url + SPEECH, json={**SHORT, **more}, timeout=DEADLINE_S)
    assert answer.status_code == 200, answer.text
    return answer.content


def held_files(pid: int) -> set[str]:
    """Return what a process has open: paths of files, and sockets as ``"socket:[inode]"``."""
    held = set()
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it has been closed meanwhile
            held.add(os.readlink(each))
    return held
