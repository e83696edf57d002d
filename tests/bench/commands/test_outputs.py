"""Files that cannot be written are refused first, and what was measured survives Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from antiphon.errors import SettingsError
from antiphon_bench.commands.outputs import make_folder, refuse_unwritable, write
from tests.bench.odd_server import KEY, odd_server
from tests.cli.conftest import DEADLINE_S, Run
from tests.servers import wait_until

Start = Callable[..., "subprocess.Popen[str]"]
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")


def test_a_file_that_can_be_written_is_left_as_it_is(tmp_path: Path) -> None:
    new, old = tmp_path / "new", tmp_path / "old"
    old.write_text("so", encoding="utf-8")
    refuse_unwritable(new, old, None)
    assert (new.exists(), old.read_text(encoding="utf-8")) == (False, "so")
    write(new, "words")
    write(None, "words")
    assert new.read_text(encoding="utf-8") == "words"


def test_what_cannot_be_written_is_told(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    for wrong in (tmp_path, file / "x", tmp_path / "no" / "such" / "folder"):
        with pytest.raises(SettingsError, match="cannot be written"):
            refuse_unwritable(wrong)
    for wrong in (file, file / "x"):
        with pytest.raises(SettingsError, match="cannot be written"):
            make_folder(wrong)


def test_nothing_is_asked_of_a_server_if_its_report_cannot_be_written(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    with odd_server() as server:
        url = f"{server.base_url}/good"
        for arguments in (
            ["serve", "--url", url, "--json", str(tmp_path)],
            ["serve", "--url", url, "--plot", str(file / "x")],
            ["suite", "--url", url, "--out", str(file)],
            ["chat", "--url", url, "--json", str(tmp_path)],
            ["quality", "--url", url, "--markdown", str(tmp_path)],
            ["engine", "toy", "--json", str(tmp_path)],
            ["fabric", "--json", str(tmp_path)],
        ):
            result = run(*arguments)
            assert result.exit_code == 1, arguments
            assert "cannot be written" in result.stderr, arguments
        assert server.requests == []


def ended(process: "subprocess.Popen[str]") -> tuple[int, str, str]:
    output, errors = process.communicate(timeout=DEADLINE_S)
    return process.returncode, output, errors


def test_what_was_measured_before_an_interrupt_is_written(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "serve.json"
    with odd_server() as server:
        few = ["--concurrency", "1,2", "--requests", "100000000", "--warmup", "0"]
        url = f"{server.base_url}/good"
        process = start("serve", "--url", url, *few, "--json", str(file))
        wait_until(lambda: len(server.requests) > 20)
        process.send_signal(signal.SIGINT)
        status, output, errors = ended(process)
    assert status == 130, errors
    assert "audio-s / s" in output
    assert "Interrupted; this is what had been measured" in errors
    assert "Traceback" not in errors
    report = json.loads(file.read_text(encoding="utf-8"))
    (result,) = report["results"]
    assert report["interrupted"]
    assert result["outcomes"]["ok"] >= 10
    assert len(report["loads"]) == 1


def test_a_suite_that_is_interrupted_leaves_out_what_it_does_not_know(
    start: Start, tmp_path: Path
) -> None:
    with odd_server() as server:
        few = ["--concurrency", "1,2", "--lengths", "short", "--requests", "100000000"]
        more = ["--warmup", "0", "--out", str(tmp_path / "out")]
        process = start("suite", "--url", f"{server.base_url}/good", *few, *more)
        wait_until(lambda: len(server.requests) > 20)
        process.send_signal(signal.SIGINT)
        status, output, errors = ended(process)
    assert status == 130, errors
    assert "Interrupted" in output
    report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert report["interrupted"]
    assert [each["cell"] for each in report["cells"]] == ["custom_voice/en/short/stream/1 streams"]


def test_an_interrupt_before_anything_was_measured_says_so(start: Start, tmp_path: Path) -> None:
    file = tmp_path / "serve.json"
    with odd_server() as server:
        url = f"{server.base_url}/hangs_at_once"
        process = start("serve", "--url", url, "--concurrency", "1", "--json", str(file))
        wait_until(lambda: bool(server.requests))
        process.send_signal(signal.SIGINT)
        status, _, errors = ended(process)
    assert status == 130
    assert errors.splitlines()[-1] == "antiphon: Interrupted; nothing was written."
    assert "Traceback" not in errors
    assert not file.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.parametrize(
    "name",
    # Each starts a server; one signal stands for the others.
    ["SIGINT", *(pytest.param(each, marks=pytest.mark.slow) for each in ("SIGTERM", "SIGHUP"))],
)
def test_no_server_of_our_own_stays_behind(start: Start, tmp_path: Path, name: str) -> None:
    number = signal.Signals[name]
    few = ["--concurrency", "1", "--requests", "100000000", "--processes", "1"]
    more = ["--json", str(tmp_path / "serve.json"), "--api-key", KEY]
    process = start("serve", "--model", "toy", *few, *more)
    wait_until(lambda: bool(children(process.pid)))
    (server,) = children(process.pid)
    wait_until(lambda: len(children(process.pid)) > 1)  # clients are begun
    assert KEY not in (server / "cmdline").read_text(encoding="utf-8")
    process.send_signal(number)
    status, _, errors = ended(process)
    assert status == 128 + number, errors
    wait_until(lambda: not server.exists())


@pytest.mark.slow  # a server is started and loaded until it is interrupted
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
def test_an_interrupt_that_reaches_the_server_too_makes_no_failures(
    start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "serve.json"
    few = ["--concurrency", "2", "--requests", "100000000", "--processes", "1"]
    # A group of its own, as that of a command in a terminal.
    process = start("serve", "--model", "toy", *few, "--json", str(file), group=0)
    wait_until(lambda: len(children(process.pid)) > 2)  # server, clients, and whoever tracks them
    (server, *_) = children(process.pid)
    wait_until(lambda: num_spoken(server) > 20)
    os.killpg(process.pid, signal.SIGINT)
    status, _, errors = ended(process)
    assert status == 130, errors
    (result,) = json.loads(file.read_text(encoding="utf-8"))["results"]
    assert result["outcomes"].keys() <= {"ok", "refused"}
    wait_until(lambda: not server.exists())


def num_spoken(server: Path) -> float:
    """Return how many requests a server's process says that it has answered."""
    arguments = (server / "cmdline").read_text(encoding="utf-8").split("\0")
    if "--port" not in arguments:
        return 0  # it is about to begin
    url = f"http://127.0.0.1:{arguments[arguments.index('--port') + 1]}/metrics"
    try:
        told = httpx.get(url).text
    except httpx.TransportError:
        return 0
    spoken = r"^antiphon_http_requests_total{.*audio/speech.*} (\S+)$"
    return sum(map(float, re.findall(spoken, told, re.M)))


def children(pid: int) -> list[Path]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    return [Path(f"/proc/{each}") for each in found.split()]
