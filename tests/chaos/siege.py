"""A server under attack: a process of its own, pinged throughout, that must give all back.

``ANTIPHON_TEST_ATTACKS_SCALE`` says how many attacks there are: 1 or ``full`` for all, by default
a part of them that takes minutes.
"""

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.chaos.pinger import STARTED
from tests.cli.test_serve import serving
from tests.servers import DEADLINE_S, wait_until

ROOT = Path(__file__).parents[2]
MAX_GROWTH_MIB = 96.0
"""What allocators may keep of a server's memory after an attack."""
MAX_LOG_BYTES_PER_ATTACK = 1024
_SCALE = os.environ.get("ANTIPHON_TEST_ATTACKS_SCALE", "0.04")
SCALE = 1.0 if _SCALE == "full" else float(_SCALE)
OPEN = {
    "antiphon_http_requests_open": 1,
    "antiphon_connections_open": 1,
    "antiphon_sockets_open": 0,
    "antiphon_speech_active": 0,
    "antiphon_speech_waiting": 0,
}
"""What is open, or under way, when nobody but the one who asks for the metrics is there."""
MAX_WORKER_THREADS = 40
"""Pools of threads grow when they are first needed, up to a bound, and need not shrink."""


def scaled(number: int) -> int:
    """Return how many of so many attacks are made."""
    return max(1, round(SCALE * number))


@dataclass(frozen=True)
class Holdings:
    """Resources that a server holds.

    Files leave out databases: each worker thread that has needed one keeps its connection.
    """

    num_files: int
    num_threads: int
    num_children: int
    num_temporary: int
    resident_mib: float


@dataclass
class Besieged:
    """A server that is attacked; ``folder`` has its data, its temporary folder and its log."""

    url: str
    process: "subprocess.Popen[str]"
    folder: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def metrics(self) -> dict[str, float]:
        sums: dict[str, float] = {}
        text = httpx.get(f"{self.url}/metrics", timeout=DEADLINE_S).text
        for name, value in re.findall(r"^(\w+)(?:\{.*\})? (\S+)$", text, re.MULTILINE):
            sums[name] = sums.get(name, 0.0) + float(value)
        return sums

    def failures(self) -> float:
        """Return how many requests were answered, or booked, with a status of 5xx.

        But for those that ask whether it is ready, which it says it is not while it gets warm.
        """
        text = httpx.get(f"{self.url}/metrics", timeout=DEADLINE_S).text
        found = re.findall(
            r'^antiphon_http_requests_total\{(?!.*route="/ready").*status="5\d\d".*\} (\S+)$',
            text,
            re.MULTILINE,
        )
        return sum(map(float, found))

    def is_quiet(self) -> bool:
        """Tell whether nothing is open but the connection that asks."""
        found = self.metrics()
        return all(found.get(name, 0.0) <= most for name, most in OPEN.items())

    def holdings(self) -> Holdings:
        """Return what the server holds once nobody is connected."""
        wait_until(self.is_quiet)
        proc = Path(f"/proc/{self.process.pid}")
        status = (proc / "status").read_text()
        resident = re.search(r"VmRSS:\s+(\d+) kB", status)
        threads = re.search(r"Threads:\s+(\d+)", status)
        assert resident
        assert threads
        children = [
            each for task in (proc / "task").iterdir() for each in _children(task / "children")
        ]
        temporary = [path for path in (self.folder / "tmp").rglob("*") if path.is_file()]
        return Holdings(
            num_files=sum(
                number for name, number in self.open_files().items() if ".sqlite3" not in name
            ),
            num_threads=int(threads[1]),
            num_children=len(children),
            num_temporary=len(temporary),
            resident_mib=int(resident[1]) / 1024,
        )

    def open_files(self) -> dict[str, int]:
        """Return what is open, counted by kind or path."""
        found: dict[str, int] = {}
        for path in Path(f"/proc/{self.process.pid}/fd").iterdir():
            with suppress(FileNotFoundError):
                name = re.sub(r"\[\d+\]$", "", str(path.readlink()))
                found[name] = found.get(name, 0) + 1
        return found

    def speak(self) -> None:
        said = {"input": "Still here.", "response_format": "wav", "seed": 1}
        answer = httpx.post(f"{self.url}/v1/audio/speech", json=said, timeout=DEADLINE_S)
        assert answer.status_code == 200, answer.text


def _children(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except FileNotFoundError:  # a thread that has ended meanwhile
        return []


@contextmanager
def besieged(folder: Path, *arguments: str, model: str = "toy") -> Generator[Besieged, None, None]:
    """Start a server whose data, temporary files and log lie in ``folder``; give it and end it."""
    for name in ("data", "tmp"):
        (folder / name).mkdir(exist_ok=True)
    environment = {**os.environ, "TMPDIR": str(folder / "tmp"), "ANTIPHON_MODEL_DEVICE": "cpu"}
    log = (folder / "log").open("a", encoding="utf-8")

    def start(*arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "antiphon", *arguments]
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        )

    data = ("--data-dir", str(folder / "data"))
    with log, many_files(), serving(start, *data, *arguments, model=model) as (process, url):
        wait_until(lambda: httpx.get(f"{url}/ready").status_code == 200)
        yield Besieged(url, process, folder)


@contextmanager
def many_files() -> Generator[None, None, None]:
    """Raise the limit of open files as far as it goes, for this process and its children."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files[1], files[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, files)


@contextmanager
def pinged(port: int, name: str) -> Generator[None, None, None]:
    """Ping /health while the block lasts; all must be answered, and the latencies are printed."""
    command = [sys.executable, "-m", "tests.chaos.pinger", str(port)]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as pinger:
        assert pinger.stdout is not None
        assert pinger.stdout.readline() == STARTED
        try:
            yield
        finally:
            told, _ = pinger.communicate(timeout=2 * DEADLINE_S)
    found: dict[str, Any] = json.loads(told)
    load = os.getloadavg()[0]
    print(f"\n{name}: /health {found}, load average {load:.1f}")  # noqa: T201
    assert set(found["statuses"]) == {"200"}


@contextmanager
def nothing_kept(server: Besieged, name: str, num_attacks: int) -> Generator[None, None, None]:
    """Assert that pings are answered during the block, and that all is free after it."""
    before, logged = server.holdings(), server.log.stat().st_size
    with pinged(server.port, name):
        yield
    after = until_back(server, before)
    num_logged = server.log.stat().st_size - logged
    print(f"{num_attacks} attacks: {before} -> {after}, {num_logged} bytes of log")  # noqa: T201
    assert after.resident_mib <= before.resident_mib + MAX_GROWTH_MIB
    assert num_logged <= MAX_LOG_BYTES_PER_ATTACK * (num_attacks + 100)
    assert "Traceback" not in server.log.read_text(encoding="utf-8")
    assert server.process.poll() is None


def until_back(server: Besieged, before: Holdings) -> Holdings:
    """Wait until a server holds no more than before, memory aside."""
    found = before

    def is_back() -> bool:
        nonlocal found
        found = server.holdings()
        return (
            found.num_files <= before.num_files
            and found.num_threads <= before.num_threads + MAX_WORKER_THREADS
            and found.num_children <= before.num_children
            and found.num_temporary <= before.num_temporary
        )

    try:
        wait_until(is_back)
    except AssertionError:
        pytest.fail(f"not all is given back: {before} -> {found}, {server.open_files()}")
    return found
