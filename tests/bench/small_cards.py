"""Qwen3-TTS on small GPU cards, which a large GPU stands for: what fits, how fast, in what memory.

    python -m tests.bench.small_cards --seconds 240 --cards 3,4,2.5

This process takes memory of the GPU until as much is free as a card has; `antiphon bench engine`
then runs in a process of its own, which sees a card of that size and no programs for Hopper. What
does not fit fails there as on such a card. A line of JSON for each card, with how the run ended.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from antiphon.config import ModelSettings
from antiphon.nn.cuda import compiler
from antiphon_bench import engine
from antiphon_bench.machine import provenance, shown_command

_PIECES_MIB = (4096, 512, 64, 16)
_POLL_S = 0.003
_MIB, _GIB = 2**20, 2**30
_LEAST_S = 20.0
_ERROR = re.compile(r"^(Error\b|\w*(\.\w+)*(Error|Exception)\b)|\berror\b", re.IGNORECASE)
_WARNING = re.compile(r"warn|random ones are drawn", re.IGNORECASE)
_ERROR_LINES = 12


@dataclass(frozen=True, slots=True)
class Card:
    gib: float
    size: str
    quantize: str = ""
    concurrency: str = "1,2,4,8"


CARDS = (
    Card(3, "0.6b"),
    Card(4, "1.7b", "int8", "1,2,4"),
    Card(2.5, "0.6b", "int8"),
    Card(6, "1.7b"),
    Card(8, "1.7b", concurrency="1,8,16"),
)
"""In the order in which they are run: the smallest ones say most."""


def run_as_card(gib: float, arguments: Sequence[str]) -> None:
    """Run a command of Antiphon as if the GPU had so much memory."""
    from antiphon.cli.main import app

    real, total = torch.cuda.mem_get_info, int(gib * _GIB)

    def seen(device: Any = None) -> tuple[int, int]:
        return min(real(device)[0], total), total

    async def no_bound(*_: Any) -> None:
        """Measure nothing: bounds take memory that such a card does not have."""

    run = engine.run

    async def with_slots_that_fit(settings: ModelSettings, *rest: Any) -> Any:
        settings.model_fields_set.discard("max_slots")  # a limit, not a demand
        return await run(settings, *rest)

    torch.cuda.mem_get_info = seen
    engine.bound_of = no_bound  # type: ignore[assignment]
    engine.run = with_slots_that_fit  # type: ignore[assignment]
    # Where programs look: their weights are laid out a second time, 210 MiB of Qwen3-TTS.
    compiler.has_compiler = lambda: False  # type: ignore[assignment]
    app(list(arguments))


class Ballast:
    """Memory of the GPU that another process shall not have."""

    def __init__(self, gib: float) -> None:
        """Leave so much free."""
        self._held: list[torch.Tensor] = []
        for mib in _PIECES_MIB:
            while self.free - gib * _GIB >= mib * _MIB:
                self._held.append(torch.empty(mib * _MIB, dtype=torch.uint8, device="cuda"))

    @property
    def free(self) -> int:
        return torch.cuda.mem_get_info()[0]

    def close(self) -> None:
        self._held.clear()
        torch.cuda.empty_cache()


def measured(card: Card, seconds: float) -> dict[str, Any]:
    """Return a card's figures; ``error`` if it did not end well."""
    ballast = Ballast(card.gib)
    start = least = ballast.free
    with tempfile.TemporaryDirectory() as scratch:
        report, log = Path(scratch) / "report.json", Path(scratch) / "log"
        command = ["bench", "engine", "--device", "cuda", "--frames", "100", "--random", card.size]
        command += ["--concurrency", card.concurrency, "--json", str(report)]
        command += ["--quantize", card.quantize] if card.quantize else []
        python = [sys.executable, "-m", "tests.bench.small_cards", "--as-card", str(card.gib)]
        with log.open("wb") as output:
            child = subprocess.Popen([*python, *command], stdout=output, stderr=output)
            end_s = time.monotonic() + seconds
            while child.poll() is None and time.monotonic() < end_s:
                least = min(least, ballast.free)
                time.sleep(_POLL_S)
            status = child.poll()
            child.kill()
            child.wait()
        ended = f"time out after {seconds:.0f} s" if status is None else f"exit status {status}"
        found: dict[str, Any] = {"free_mib": start // _MIB, "peak_mib": (start - least) // _MIB}
        found["ended"] = ended
        if status or not report.exists():
            found["error"] = last_error(log.read_text("utf-8", errors="replace"))
        else:
            found["report"] = json.loads(report.read_text("utf-8"))
    ballast.close()
    return {**asdict(card), **found}


def last_error(log: str) -> str:
    """Return the end of a log from its last error on; without one, its last lines."""
    lines = [line for line in log.splitlines() if line.strip() and not _WARNING.search(line)]
    starts = [number for number, line in enumerate(lines) if _ERROR.search(line)]
    return "\n".join(lines[starts[-1] if starts else 0 :][-_ERROR_LINES:])


def chosen(names: str | None) -> list[Card]:
    """Return the cards of these sizes in GiB, ``"3,2.5"``, in the order of `CARDS`."""
    wanted = None if names is None else {float(name) for name in names.split(",")}
    if unknown := (wanted or set()) - {card.gib for card in CARDS}:
        sizes = ", ".join(f"{card.gib:g}" for card in CARDS)
        raise ValueError(f"--cards: {unknown} are not among {sizes}.")
    return [card for card in CARDS if wanted is None or card.gib in wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=240.0, help="time for all cards")
    parser.add_argument("--cards", help="their GiB, such as 3,2.5; default: all")
    args = parser.parse_args()
    end_s = time.monotonic() + args.seconds
    print(json.dumps({**provenance(), "command": shown_command(sys.argv[1:])}), flush=True)  # noqa: T201
    for card in chosen(args.cards):
        left_s = end_s - time.monotonic()
        if left_s < _LEAST_S:
            break
        print(json.dumps(measured(card, left_s)), flush=True)  # noqa: T201


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as-card"]:
        run_as_card(float(sys.argv[2]), sys.argv[3:])
    else:
        main()
