"""``antiphon models fit --card cpu``: which weights a checkpoint is to have on this CPU."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from antiphon.contracts.family import Family
    from antiphon.placement.cpu_fit import CpuFit
    from antiphon.placement.host_cpu import HostCpu

NOTE = (
    "An estimate from the speed of this machine's memory and arithmetic, measured just now beside"
    " what else it does, and the shares of them that Qwen3-TTS 0.6B reaches; nothing else has been"
    " measured (docs/without-a-gpu.md)."
)
SLOW = (
    "That is slower than real time: for files, not for conversations. Small voices are faster than"
    " real time on any laptop (docs/without-a-gpu.md)."
)


def family_of(path: Path) -> "Family":
    """Return the family of a checkpoint.

    Raises:
        ModelLoadError: there is no directory, or no family serves it.
    """
    from antiphon.errors import ModelLoadError
    from antiphon.families.registry import checkpoint_family

    if not path.is_dir():
        raise ModelLoadError(f"There is no directory '{path}'.")
    return checkpoint_family(path)


def fit_cpu(path: Path, seconds: float, *, as_json: bool) -> None:
    """Print estimates for this CPU by type of weights, and the command that is recommended.

    The exit status is 1 if the memory is too small for each of them.
    """
    from antiphon.placement.cpu_fit import cpu_fits, recommended
    from antiphon.placement.host_cpu import HostCpu

    family, cpu = family_of(path), HostCpu.of_host()
    fits = cpu_fits(family, path, cpu, seconds)
    best = recommended(fits, cpu.memory_gib)
    command = None if best is None else _command(path, best)
    if as_json:
        found = {"cpu": cpu, "seconds": seconds, "weights": fits, "recommended": command}
        typer.echo(json.dumps({**found, "note": NOTE}, indent=2, default=dataclasses.asdict))
    else:
        _print(cpu, fits, best, command)
    if best is None:
        raise typer.Exit(1)


def _command(path: Path, fit: "CpuFit") -> str:
    more = "" if fit.weights == "float32" else f" --quantize {fit.weights}"
    return f"antiphon serve {shlex.quote(str(path))} --device cpu{more}"


def _print(
    cpu: "HostCpu", fits: list["CpuFit"], best: "CpuFit | None", command: str | None
) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("Weights", "Memory", "ms a frame", "its audio, ms", "of real time", box=None)
    for each in fits:
        times = (f"{each.model_ms:.0f}", f"{each.decoder_ms:.0f}", f"{each.load:.0%}")
        table.add_row(each.weights, f"{each.memory_gib:.1f} GiB", *times)
    console = Console(highlight=False, soft_wrap=True)
    console.print(described(cpu), "", table, "", sep="\n")
    if best is None:
        console.print("None fits into the main memory, of which a fifth is left to others.")
    else:
        console.print(f"Recommended: {command}", markup=False)
        if best.load > 1:
            console.print(SLOW)
    console.print("", NOTE, sep="\n")


def described(cpu: "HostCpu") -> str:
    """Return a CPU in one line."""
    parts = [f"{cpu.cores} cores", cpu.vectors, _with(cpu.memory_gib, "GiB")]
    parts += [_with(cpu.bandwidth_gbs, "GB/s"), _with(cpu.gflops, "GFLOP/s a core")]
    return f"{cpu.name}: {', '.join(part for part in parts if part)}"


def _with(number: float | None, unit: str) -> str | None:
    return None if number is None else f"{number:.0f} {unit}"
