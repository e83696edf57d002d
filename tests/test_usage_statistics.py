"""Dependencies report nothing to their makers, and leave nothing in the home folder."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from antiphon import NO_USAGE_STATISTICS
from tests.cli.conftest import DEADLINE_S
from tests.cli.test_serve import serving

TRACE = ("strace", "-D", "-f", "-qq", "-e", "trace=openat,connect,sendto,sendmsg,sendmmsg", "-o")
"""With ``-D`` the process that is traced is the one that was started, and gets its signals."""
LIBRARY = """
from antiphon import Antiphon
with Antiphon.load("hibari") as antiphon:
    assert antiphon.speech("Hello.").duration_s > 0
"""
PRINT_VARIABLES = f"import os, antiphon; print(*(os.environ[n] for n in {[*NO_USAGE_STATISTICS]}))"


def can_trace() -> bool:
    """Return whether there is strace, and whether it may be used."""
    probe = (*TRACE, os.devnull, "true")
    return bool(shutil.which("strace")) and subprocess.run(probe, check=False).returncode == 0


class Home:
    """A home folder of its own for a process, whose calls are recorded where that is possible."""

    def __init__(self, folder: Path) -> None:
        self._home, self._trace = folder / "home", folder / "trace"
        self._home.mkdir()
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in NO_USAGE_STATISTICS and not name.startswith(("XDG_", "HF_"))
        }
        data = str(folder / "data")
        self.environment = {**kept, "HOME": str(self._home), "ANTIPHON_DATA_DIR": data}

    def popen(self, *arguments: str) -> "subprocess.Popen[str]":
        trace = (*TRACE, str(self._trace)) if can_trace() else ()
        return subprocess.Popen(
            (*trace, sys.executable, *arguments),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def check(self) -> None:
        """Check that no name was looked up, no host was called, and no file was left."""
        assert [*self._home.rglob("*")] == []
        calls = self._trace.read_text() if self._trace.exists() else ""
        assert "/etc/resolv.conf" not in calls
        hosts = re.findall(r'inet_(?:addr\(|pton\(AF_INET6, )"([^"]+)"', calls)
        assert {host for host in hosts if not host.startswith("127.") and host != "::1"} == set()


def test_the_library_reports_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)
    with home.popen("-c", LIBRARY) as process:
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0, errors
    home.check()


@pytest.mark.slow  # four traced processes import a model; the library is traced above
def test_front_ends_and_stages_report_nothing(tmp_path: Path) -> None:
    home = Home(tmp_path)

    def start(*arguments: str) -> "subprocess.Popen[str]":
        return home.popen("-m", "antiphon", *arguments)

    with serving(start, "--front-ends", "2", model="hibari") as (process, url):
        asked = {"input": "Hello.", "response_format": "mp3"}
        spoken = httpx.post(f"{url}/v1/audio/speech", json=asked, timeout=DEADLINE_S)
        assert spoken.status_code == 200, spoken.text
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    home.check()


@pytest.mark.parametrize("given", [{}, dict.fromkeys(NO_USAGE_STATISTICS, "theirs")])
def test_the_operator_has_the_last_word(given: dict[str, str]) -> None:
    kept = {name: value for name, value in os.environ.items() if name not in NO_USAGE_STATISTICS}
    printed = subprocess.check_output(
        (sys.executable, "-c", PRINT_VARIABLES), env={**kept, **given}, text=True
    )
    assert printed.split() == list({**NO_USAGE_STATISTICS, **given}.values())


@pytest.mark.slow  # imports Gradio and Ray
def test_libraries_read_these_variables() -> None:
    import gradio.analytics
    from huggingface_hub import constants
    from ray._common.usage import usage_lib

    assert constants.HF_HUB_DISABLE_TELEMETRY
    assert not gradio.analytics.analytics_enabled()
    assert not usage_lib.usage_stats_enabled()
