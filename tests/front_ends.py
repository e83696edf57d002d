"""A server of several processes, and ways to choose which of them answers."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.servers import DEADLINE_S, wait_until

NUM_ASKED = 8
"""Connections for each front end: one of three is missed by all of them once in 17,000 times."""


@dataclass(frozen=True)
class ServerProcesses:
    process: "subprocess.Popen[str]"
    url: str
    key: str = "none"

    def pids(self) -> dict[str, int]:
        found = re.findall(
            r'process_start_time_seconds\{pid="(\d+)",process="([\w-]+)"\}', self.scraped()
        )
        return {name: int(pid) for pid, name in found}

    def scraped(self) -> str:
        headers = {"Authorization": f"Bearer {self.key}"}
        return httpx.get(f"{self.url}/metrics", headers=headers, timeout=DEADLINE_S).text

    def value(self, name: str) -> float:
        """Return a metric, all its labels together."""
        families = text_string_to_metric_families(self.scraped())
        return sum(
            each.value for family in families for each in family.samples if each.name == name
        )

    def front_ends(self) -> list[int]:
        return [pid for name, pid in sorted(self.pids().items()) if name.startswith("front-end")]

    def engine(self) -> int:
        (pid,) = (pid for name, pid in self.pids().items() if name.startswith("engine"))
        return pid

    def wait_for(self, num_processes: int, *, instead_of: int | None = None) -> None:
        """Wait until so many processes run, and all front ends are ready.

        ``instead_of`` is a process that was killed, and is not one of them.
        """

        def is_complete() -> bool:
            pids = self.pids().values()
            return len(pids) == num_processes and instead_of not in pids and self._is_ready()

        wait_until(is_complete)

    def _is_ready(self) -> bool:
        """Whether all say so that are asked: each of many connections is anyone's."""
        with httpx.Client(headers={"Connection": "close"}, timeout=DEADLINE_S) as client:
            num_asked = NUM_ASKED * len(self.front_ends())
            return all(client.get(f"{self.url}/ready").status_code == 200 for _ in range(num_asked))

    @contextmanager
    def only(self, index: int) -> Generator[int, None, None]:
        """Stop all front ends but one, which then gets every connection; yield its number."""
        pids = self.front_ends()
        others = [pid for number, pid in enumerate(pids) if number != index]
        time.sleep(0.05)  # nobody is stopped with the lock of the limits
        for pid in others:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield pids[index]
        finally:
            for pid in others:
                with suppress(ProcessLookupError):  # a test that fails has ended the server
                    os.kill(pid, signal.SIGCONT)

    def each(self) -> Iterator[int]:
        """Make every front end in turn the only one that answers."""
        for index in range(len(self.front_ends())):
            with self.only(index):
                yield index
