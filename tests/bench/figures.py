"""Makes the figures of docs/performance.md on a machine with one GPU, in limited time.

    scripts/measure-gpu --out figures --budget-s 540
    scripts/measure-gpu --out figures --only engine,http
    scripts/measure-gpu --out figures --only two-gpus
    scripts/measure-gpu --list
    scripts/measure-gpu --out figures --tiny --device cpu --only engine,peers --rate-s 5

Each part is a process of its own. None is begun that would not be done in time; one that takes
twice as long as it should is killed, and the next begins. `--out` gets a log and the figures of
each part, and figures.json: how each ended and what it took, in earlier calls, too. It is written
after each part, so that a call that is cut off leaves what it has measured.
"""

import argparse
import importlib.util
import json
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from math import inf
from pathlib import Path
from typing import Any, Literal

from antiphon_bench.machine import provenance, shown_command
from tests.bench.figure_parts import all_parts
from tests.bench.measured_part import Options, Part, chosen
from tests.bench.part_process import Status, run_commands

_OVERRUN = 2.0
"""A part may take so many times what is expected of it."""
_RESERVE_S = 15.0
"""At the end of the budget: to kill the last part, and to write."""
_NUM_LINES = 10
_LINE = 160  # characters of it


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of a part.

    ``"skipped"``: a package is missing; ``"no time"``: it would not have been done. The exit status
    is that of its last command; ``None`` if it was not begun.
    """

    part: str
    status: Status | Literal["skipped", "no time"]
    expected_s: float
    took_s: float = 0.0
    exit_status: int | None = None
    why: str = ""


class Budget:
    """The time that there is, from when this is made."""

    def __init__(self, budget_s: float) -> None:
        self._until_s = time.monotonic() + budget_s

    @property
    def left_s(self) -> float:
        return self._until_s - _RESERVE_S - time.monotonic()


def measure(parts: Sequence[Part], options: Options, budget: Budget) -> list[Result]:
    """Run the parts that there is time for, one after the other; return what became of each."""
    results: list[Result] = []
    seen = set[str]()
    for number, part in enumerate(parts):
        # What comes after it needs its time, too, but for loads that take what they get.
        later = [*_expected(parts[number + 1 :], {*seen, part.model})]
        left_s = budget.left_s
        given_s = left_s - sum(each.expected_s for each in later if not _missing(each, options))
        part = part.beginning(seen, given_s)
        result = _result(part, options, left_s)
        seen |= {part.model} if result.exit_status is not None else set()
        results.append(result)
        _write(options.out / "figures.json", results)
        _tell(result, options.out, budget.left_s)
    return results


def _result(part: Part, options: Options, left_s: float) -> Result:
    if missing := _missing(part, options):
        return Result(part.name, "skipped", part.expected_s, why=f"needs {', '.join(missing)}")
    if part.expected_s > left_s:
        why = f"{max(left_s, 0):.0f} s are left"
        return Result(part.name, "no time", part.expected_s, why=why)
    limit_s = min(_OVERRUN * part.expected_s, left_s)
    ended = run_commands(part.commands, options.out / f"{part.name}.log", limit_s)
    why = f"not done within {limit_s:.0f} s" if ended.status == "killed" else ""
    took_s = round(ended.took_s, 1)
    return Result(part.name, ended.status, part.expected_s, took_s, ended.exit_status, why)


def _missing(part: Part, options: Options) -> list[str]:
    packages = [name for name in part.needs if importlib.util.find_spec(name) is None]
    lacks_gpus = not options.is_tiny and len(provenance()["gpus"]) < part.num_gpus
    return [*packages, *([f"{part.num_gpus} GPUs"] if lacks_gpus else [])]


def _write(file: Path, results: Sequence[Result]) -> None:
    """Write the summary; what parts took in earlier calls stays in it until they run again."""
    earlier = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"parts": {}}
    parts: dict[str, Any] = earlier["parts"]
    for each in results:
        if each.exit_status is not None or each.part not in parts:
            parts[each.part] = asdict(each)
    content = {
        **provenance(),
        "command": ["scripts/measure-gpu", *shown_command(sys.argv[1:])],
        "parts": parts,
    }
    unfinished = file.with_suffix(".part")
    unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    unfinished.replace(file)


def _tell(result: Result, out: Path, left_s: float) -> None:
    log = out / f"{result.part}.log"
    if result.exit_status is not None:
        said = log.read_text(encoding="utf-8", errors="replace").split("\n")
        # Of a line that was written over, as bars of progress are, what was last to be seen.
        lines = [line.rstrip().rpartition("\r")[2] for line in said]
        shown = [line[:_LINE] for line in lines if line and not line.startswith("$ ")]
        _print("\n".join(f"  {line}" for line in shown[-_NUM_LINES:]))
    took = f"{result.took_s:.1f} s of {result.expected_s:.0f}"
    left = "" if left_s == inf else f"; {max(left_s, 0):.0f} s left"
    _print(f"{result.part}: {result.status} {result.why}, {took}{left}".replace(" ,", ","))


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a command


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; exits with 1 if a part has failed or was killed."""
    given = _arguments(arguments)
    with ExitStack() as stack:
        random_dir = given.random_dir
        if random_dir is None:
            made = tempfile.TemporaryDirectory(prefix="antiphon-random-")
            random_dir = Path(stack.enter_context(made))
        options = Options(
            out=given.out.absolute(),
            random_dir=random_dir.absolute(),
            device=given.device,
            is_tiny=given.tiny,
            rate_s=given.rate_s,
        )
        try:
            parts = chosen(all_parts(options), given.only)
        except ValueError as error:
            sys.exit(str(error))
        if given.list:
            _list(parts)
            return
        options.out.mkdir(parents=True, exist_ok=True)
        # Whoever ends this ends the part that runs: an exception passes through run_commands.
        usual = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
        stack.callback(signal.signal, signal.SIGTERM, usual)
        results = measure(parts, options, Budget(given.budget_s))
    for each in results:
        _print(f"{each.part:20} {each.status:8} {each.took_s:7.1f} s  {each.why}")
    if any(each.status in ("failed", "killed") for each in results):
        sys.exit(1)


def _expected(parts: Iterable[Part], seen: Iterable[str] = ()) -> Iterator[Part]:
    """Yield parts with the time that each takes after those before it."""
    models = {*seen}
    for each in parts:
        yield each.beginning(models, 0.0)
        models.add(each.model)


def _list(parts: Sequence[Part]) -> None:
    for part in _expected(parts):
        _print(f"{part.name} ({part.group}), {part.expected_s:.0f} s")
        for command in part.commands:
            _print(f"  {' '.join(command)}")


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/measure-gpu", description=__doc__.split("\n")[0])
    parser.add_argument(
        "--out", type=Path, default=Path("figures"), help="folder of what is written"
    )
    parser.add_argument(
        "--random-dir", type=Path, help="keep weights of other programs here for the next call"
    )
    parser.add_argument("--budget-s", type=float, default=inf, help="seconds that there are")
    parser.add_argument("--only", help="parts or groups, comma-separated, in this order")
    parser.add_argument(
        "--rate-s", type=float, help="length of the open load; default: what is left"
    )
    parser.add_argument("--device", default="auto", help="as of antiphon bench")
    parser.add_argument("--tiny", action="store_true", help="tiny weights and loads, for a CPU")
    parser.add_argument("--list", action="store_true", help="only say what there is to do")
    return parser.parse_args(given)


if __name__ == "__main__":
    main()
