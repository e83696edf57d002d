"""What a part of a measurement is, and what holds for all of them."""

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias

Command: TypeAlias = tuple[str, ...]

LOAD_S = "{load_s}"
"""In a command: for how many seconds its load goes on."""
SHORTEST_LOAD_S = 60.0
LONGEST_LOAD_S = 600.0
_FEW = 8


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the measurement.

    Attributes:
        name: of its files, too.
        group: of parts that are asked for together.
        commands: run one after the other.
        expected_s: that it takes.
        first_s: that it takes in addition if it is the first with its ``model``, whose kernels are
            most likely compiled then.
        model: its random weights; ``""``: it has none.
        needs: packages without which it is left out.
        num_gpus: GPUs without which it is left out; tiny weights need none.
        is_elastic: whether its load goes on as long as there is time. ``expected_s`` is then with
            a load of `SHORTEST_LOAD_S`.
    """

    name: str
    group: str
    commands: tuple[Command, ...]
    expected_s: float
    first_s: float = 0.0
    model: str = ""
    needs: tuple[str, ...] = ()
    num_gpus: int = 0
    is_elastic: bool = False

    def beginning(self, seen: Collection[str], left_s: float) -> "Part":
        """Return it as it is if it begins now, with all that it takes in ``expected_s``.

        Args:
            seen: models of earlier parts.
            left_s: the time that there is for it.
        """
        is_first = bool(self.model) and self.model not in seen
        expected_s = self.expected_s + (self.first_s if is_first else 0.0)
        if not self.is_elastic:
            return replace(self, expected_s=expected_s, first_s=0.0)
        more_s = min(max(0.0, left_s - expected_s), LONGEST_LOAD_S - SHORTEST_LOAD_S)
        load_s = f"{int(SHORTEST_LOAD_S + more_s)}"
        told = tuple(tuple(a.replace(LOAD_S, load_s) for a in each) for each in self.commands)
        return replace(self, commands=told, expected_s=expected_s + more_s, first_s=0.0)


@dataclass(frozen=True, slots=True)
class Options:
    """Settings of all parts; ``out`` is the folder that they write to.

    ``is_tiny`` tries all this on a CPU; ``rate_s=None`` goes on with the open load as long as there
    is time.
    """

    out: Path
    random_dir: Path
    device: str = "auto"
    is_tiny: bool = False
    rate_s: float | None = None

    def size(self, full: str) -> str:
        return "tiny" if self.is_tiny else full

    def streams(self, *full: int) -> str:
        """Return numbers of streams, as flags have them."""
        return ",".join(map(str, range(1, 1 + len(full)) if self.is_tiny else full))

    def count(self, full: int) -> str:
        return str(min(full, _FEW) if self.is_tiny else full)

    def kept(self) -> Command:
        """Return the flags that say where random weights are kept, and where they run."""
        return "--random-dir", str(self.random_dir), "--device", self.device

    def json(self, name: str) -> Command:
        return "--json", str(self.out / f"{name}.json")

    def bench(self, kind: str, size: str, *more: str) -> Command:
        return bench(kind, "--random", self.size(size), "--device", self.device, *more)


def antiphon(*arguments: str) -> Command:
    return sys.executable, "-m", "antiphon", *arguments


def bench(*arguments: str) -> Command:
    return sys.executable, "-m", "antiphon_bench", *arguments


def chosen(parts: Sequence[Part], wanted: str | None) -> list[Part]:
    """Return the parts of these names or groups, comma-separated, in this order; once each.

    Raises:
        ValueError: there is no such part.
    """
    if wanted is None:
        return list(parts)
    found: list[Part] = []
    for name in map(str.strip, wanted.split(",")):
        named = [each for each in parts if name in (each.name, each.group)]
        if not named:
            known = ", ".join(dict.fromkeys(n for p in parts for n in (p.group, p.name)))
            raise ValueError(f"There is no part '{name}'; there are {known}.")
        found += [each for each in named if each not in found]
    return found
