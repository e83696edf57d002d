"""Measures the pauses of a server of several models, in a process of its own."""

import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from antiphon.config import Settings
from tests.chaos.siege import ROOT
from tests.chaos.watched import MAX_PAUSE_S

MAX_TRIES = 5
MAX_PRINTED = 3

Attack: TypeAlias = Callable[[], object]


@dataclass(frozen=True)
class Watched:
    url: str
    process: "subprocess.Popen[bytes]"

    @property
    def port(self) -> int:
        found = re.fullmatch(r"http://[^:]+:(\d+)", self.url)
        assert found is not None
        return int(found[1])

    def held(self, number: int) -> dict[str, float]:
        """Return the pauses that adding up so many numbers on the event loop makes."""
        self.pauses()
        return self._ask(b"%d\n" % number)

    def pauses(self) -> dict[str, float]:
        """Return the longest pauses since the last call, in seconds."""
        return self._ask(b"\n")

    def _ask(self, command: bytes) -> dict[str, float]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command)
        self.process.stdin.flush()
        found: dict[str, float] = json.loads(self.process.stdout.readline())
        return found

    def long_pauses(self, attacks: Iterable[tuple[str, Attack]]) -> dict[str, float]:
        pauses = {name: self._pause_of(attack) for name, attack in attacks}
        longest = sorted(pauses, key=lambda name: -pauses[name])[:MAX_PRINTED]
        told = ", ".join(f"{1000 * pauses[name]:.0f} ms {name}" for name in longest)
        print(f"\n{len(pauses)} attacks, the longest pauses: {told}")  # noqa: T201
        return {name: pause_s for name, pause_s in pauses.items() if pause_s >= MAX_PAUSE_S}

    def _pause_of(self, attack: Attack) -> float:
        """Return the longest pause that an attack makes whenever it is made."""
        shortest_s = float("inf")
        for _ in range(MAX_TRIES):
            self.pauses()
            attack()
            shortest_s = min(shortest_s, max(self.pauses().values()))
            if shortest_s < MAX_PAUSE_S:
                break
        return shortest_s


@contextmanager
def watched(settings: Settings) -> Generator[Watched, None, None]:
    with subprocess.Popen(
        [sys.executable, "-m", "tests.chaos.watched"],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(pickle.dumps(settings))
            process.stdin.flush()
            url = json.loads(process.stdout.readline())
            yield Watched(url, process)
        finally:
            process.stdin.close()
