"""Parallel tests in forks of the process that collected them: ``--forks N``.

Collection takes 12 s of CPU, most of it imports of torch, transformers and diffusers. Each worker
of pytest-xdist would collect again; forks share the imported modules. A file's tests run in one
fork, in order, and share their fixtures.
"""

import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--forks", type=int, default=0, help="number of processes that run the tests")
    parser.addoption("--fork-tests", action="store_true", help="distribute tests instead of files")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.forks:
        # torch.cuda.is_available() initializes CUDA otherwise, which no fork can use then.
        os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"


class Claims:
    """Groups of tests, each of which one of several processes runs.

    What comes first mostly waits, what comes last mostly computes. As many processes as there are
    cores begin with the last, all others with the first: together they keep the cores busy.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._folder = folder
        self._size = size
        folder.mkdir()

    def taken_by(self, number: int) -> Iterator[int]:
        """Yield the indices of the groups that a process runs."""
        indices = range(self._size)
        for index in reversed(indices) if number < (os.cpu_count() or 1) else indices:
            with suppress(FileExistsError):
                (self._folder / str(index)).touch(exist_ok=False)
                yield index


class Reporter:
    """Plugin of a fork: sends each test's name and reports to the parent process."""

    def __init__(self, config: pytest.Config, connection: "Connection[Any, Any]") -> None:
        self._config = config
        self._connection = connection

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._connection.send(nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._connection.send(data)


@dataclass
class Fork:
    """A process that runs tests.

    Attributes:
        pid: process ID.
        nodeid: name of the test that started last.
    """

    pid: int
    nodeid: str | None = None


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    option = session.config.option
    if not option.forks or option.collectonly or session.testsfailed:
        return None
    groups = [
        list(group)
        for _, group in groupby(
            session.items, key=lambda item: item.nodeid if option.fork_tests else item.path
        )
    ]
    folder = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    claims = Claims(folder / "claims", len(groups))
    forks: dict[Connection[Any, Any], Fork] = {}
    for number in range(option.forks):
        receiver, sender = Pipe(duplex=False)
        with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
            pid = os.fork()  # warns of threads: those of OpenBLAS, which survive it
        if not pid:
            _become_worker(session.config, folder / f"fork{number}", sender)
            _run(session, groups, claims.taken_by(number))
            return True
        sender.close()
        forks[receiver] = Fork(pid)
    while forks:
        for connection in wait(list(forks)):
            assert isinstance(connection, Connection)
            if not _take(session, connection, forks[connection]):
                del forks[connection]
        if session.shouldfail or session.shouldstop:
            list(claims.taken_by(0))  # all: each fork ends after its current file
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    return True


def _become_worker(config: pytest.Config, folder: Path, sender: "Connection[Any, Any]") -> None:
    """Separate a fork from its parent's terminal, cache, captured output and folder."""
    config.workerinput = {}  # type: ignore[attr-defined]  # how pytest recognizes workers
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(Reporter(config, sender))
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()
    capture.start_global_capturing()
    capture.suspend_global_capture()
    folder.mkdir(mode=0o700)
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]


def _run(session: pytest.Session, groups: list[list[pytest.Item]], taken: Iterable[int]) -> None:
    """Run the groups of some indices; session fixtures live until the last."""
    items = (item for index in taken for item in groups[index])
    item = next(items, None)
    while item is not None:
        following = next(items, None)
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.shouldfail or session.shouldstop:
            return
        item = following


def _take(session: pytest.Session, connection: "Connection[Any, Any]", fork: Fork) -> bool:
    """Forward one message of a fork to the plugins of this process; return false at its end."""
    hook = session.config.hook
    try:
        sent = connection.recv()
    except EOFError:
        _, status = os.waitpid(fork.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
            nodeid = fork.nodeid or "no test"
            text = f"its process ended with {code}, and the file's later tests were not run"
            location = (nodeid, None, nodeid)
            report = pytest.TestReport(nodeid, location, {}, "failed", text, "call")
            hook.pytest_runtest_logreport(report=report)
        return False
    if isinstance(sent, str):
        fork.nodeid = sent
    else:
        report = hook.pytest_report_from_serializable(config=session.config, data=sent)
        hook.pytest_runtest_logreport(report=report)
    return True
