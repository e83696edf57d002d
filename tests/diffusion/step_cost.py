"""Measures denoising steps at published sizes, with random weights, against diffusers' pipeline.

    python -m tests.diffusion.step_cost [--only wan,ovis:eager] [--json FILE] [--budget-s 280]
    python -m tests.diffusion.step_cost --parallel          # two GPUs
    python -m tests.diffusion.step_cost --device cpu --tiny

Each row is a process with a time limit, so that one that fails hides no other; the next ones import
their libraries meanwhile. On a GPU the wall clock counts, with the device waited for; on a CPU the
processor time of one thread. A row is printed, and the file written, as soon as it is known.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, TextIO

_ROWS = (
    "diffusers",
    "eager",
    "compiled",
    "batch",
    "cache_dit",
    "cache_dit_skips",
    "tea_cache",
    "vae",
    "vae_slicing",
    "vae_tiling",
    "cpu_offload",
    "layerwise_offload",
)
_PARALLEL_ROWS = ("cfg_parallel", "ulysses", "ring")
_SUBJECTS = {False: ("wan", "ovis"), True: ("wan",)}
_COMPARED_WITH = {"vae": "", "vae_slicing": "vae", "vae_tiling": "vae"}
"""Rows that a row's ratio is to, if not to diffusers; the plain VAE has none."""
_REFERENCE = "diffusers"
_NUM_ERROR_LINES = 5
_ERROR_LINE = 200  # characters of it
_LEAST_S = 5.0  # in which a row may succeed


class RowProcess:
    """A row's process, which waits until it is told to measure."""

    def __init__(self, subject: str, row: str, options: argparse.Namespace) -> None:
        self.subject = subject
        self.row = row
        given = {
            "subject": subject,
            "row": row,
            "device": options.device,
            "steps": options.steps,
            "is_tiny": options.tiny,
        }
        self._errors: TextIO = TemporaryFile("w+")  # noqa: SIM115 - read when the row has ended
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.diffusion.step_cost_row", json.dumps(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            start_new_session=True,
            env={"NCCL_NVLS_ENABLE": "0", **os.environ},
        )

    def measure(self, limit_s: float) -> dict[str, Any]:
        """Return the row's result, or under ``error`` why there is none; once."""
        with self._errors:
            return self._measured(limit_s)

    def _measured(self, limit_s: float) -> dict[str, Any]:
        result: dict[str, Any] = {"subject": self.subject, "row": self.row}
        try:
            output, _ = self._process.communicate("\n", timeout=limit_s)
        except subprocess.TimeoutExpired:
            self._end()
            return result | {"error": f"stopped after {limit_s:.0f} s: {self._last_lines()}"}
        if self._process.returncode != 0:
            return result | {"error": f"{self._process.returncode}: {self._last_lines()}"}
        measured: dict[str, Any] = json.loads(output.splitlines()[-1])
        return result | measured

    def kill(self) -> None:
        with self._errors:
            self._end()

    def _end(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.communicate()

    def _last_lines(self) -> str:
        self._errors.seek(0)
        lines = [line.strip()[-_ERROR_LINE:] for line in self._errors if line.strip(" ^\n")]
        return " / ".join(lines[-_NUM_ERROR_LINES:])


def main(arguments: Sequence[str] | None = None) -> None:
    options = _arguments(arguments)
    begun_s = time.monotonic()
    names = _PARALLEL_ROWS if options.parallel else _ROWS
    rows = deque(
        (subject, row)
        for subject in _SUBJECTS[options.parallel]
        for row in names
        if not options.only or {subject, row, f"{subject}:{row}"} & set(options.only)
    )
    started: deque[RowProcess] = deque()
    results: list[dict[str, Any]] = []
    _print("| row | ms a step | ratio | peak GiB | notes |\n| --- | --- | --- | --- | --- |")
    try:
        while rows or started:
            while rows and len(started) <= options.ahead:
                started.append(RowProcess(*rows.popleft(), options))
            left_s = options.budget_s - (time.monotonic() - begun_s)
            row = started[0]
            if left_s < _LEAST_S:
                result = {"subject": row.subject, "row": row.row, "error": "the time is over"}
                row.kill()
            else:
                result = row.measure(min(options.row_s, left_s))
            started.popleft()
            results.append(result)
            _print(_line(result, results))
            if options.json:
                options.json.write_text(json.dumps(results, indent=2) + "\n")
    finally:
        for row in started:
            row.kill()
    if all("error" in result for result in results):
        sys.exit(1)


def _line(result: dict[str, Any], results: Sequence[dict[str, Any]]) -> str:
    """Return a line of the table, with the row's ratio to what it is compared with."""
    name = f"{result['subject']}: {result['row']}"
    if "error" in result:
        return f"| {name} | - | - | - | FAILED {result['error'].replace('|', '/')} |"
    reference = _COMPARED_WITH.get(result["row"], _REFERENCE)
    for other in results:
        if other["subject"] == result["subject"] and other["row"] == reference and "ms" in other:
            result["ratio"] = result["ms"] / other["ms"]
    ratio = f"{result['ratio']:.3f}" if "ratio" in result else "-"
    peak = "-" if result["peak_gib"] is None else f"{result['peak_gib']:.1f}"
    return f"| {name} | {result['ms']:.1f} | {ratio} | {peak} | {'; '.join(result['notes'])} |"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="networks that a CPU computes at once")
    parser.add_argument("--parallel", action="store_true", help="rows of two GPUs")
    parser.add_argument("--only", type=lambda text: text.split(","), help="wan, eager, ovis:batch")
    parser.add_argument("--steps", type=int, default=10, help="of a request")
    parser.add_argument("--row-s", type=float, default=90.0, help="limit of a row")
    parser.add_argument("--budget-s", type=float, default=280.0, help="limit of all")
    parser.add_argument("--ahead", type=int, default=3, help="processes that import meanwhile")
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that rows end too
    main()
