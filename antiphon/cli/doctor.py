"""``antiphon doctor``: what this machine is, what models use of it, and what is missing."""

import dataclasses
import json
from typing import TYPE_CHECKING

import typer

from antiphon import __version__
from antiphon.cli.fit import described
from antiphon.cli.flags import AsJson
from antiphon.cli.tables import facts_grid

if TYPE_CHECKING:
    from antiphon.placement.doctor import Report

_NOTE = (
    "Estimates of one stream, from measured (CPU) or stated (GPU) bandwidth. Small voices are"
    " faster than real time on any CPU (docs/without-a-gpu.md). The report has no names of users,"
    " hosts or folders."
)


def doctor(as_json: AsJson = False) -> None:
    """Report what this machine is, which kernels models use, what is missing, and expected speed.

    It takes a few seconds and loads no model.
    """
    from antiphon.placement.doctor import examine

    found = examine(__version__)
    if as_json:
        typer.echo(json.dumps({**dataclasses.asdict(found), "note": _NOTE}, indent=2))
    else:
        _print(found)


def _print(found: "Report") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    installed = [f"{name} {each}" for name, each in found.packages.items() if each]
    absent = [name for name, each in found.packages.items() if not each]
    rows = {
        "Antiphon": f"{found.antiphon}, Python {found.python}, {found.system}",
        "Packages": ", ".join(installed),
        "Not installed": ", ".join(absent) or "-",
        "CPU": described(found.cpu),
        "Models on it": _on_cpu(found),
    }
    for gpu in found.gpus:
        kernels = "Triton kernels" if gpu.has_kernels else "PyTorch's operators"
        programs = ", a resident program for inner codes" if gpu.has_programs else ""
        title = f"{gpu.name}: {gpu.memory_gib:.0f} GiB, capability {gpu.capability}"
        rows[gpu.device] = f"{title}, {kernels}{programs}"
    rows |= {} if found.gpus else {"GPUs": "none that PyTorch sees"}
    grid = facts_grid(rows)
    for problem in found.missing:
        grid.add_row("[bold]Missing[/]", escape(problem), style="yellow")
    table = Table(box=None, pad_edge=False)
    for title in ("Model", "Device", "Weights", "Memory", "ms a frame", "real time", "Streams"):
        table.add_column(title, no_wrap=True)
    for each in found.models:
        size, time = f"{each.memory_gib:.1f} GiB", f"{each.frame_ms:.1f}"
        load, streams = f"{each.load:.0%}", f"{each.num_streams:,}"
        table.add_row(each.model, each.device, each.weights, size, time, load, streams)
    Console(highlight=False).print(grid, "", table, "", _NOTE, sep="\n")


def _on_cpu(found: "Report") -> str:
    if not found.cpu.threads:
        return "those without PyTorch"
    packed = "".join(f", {weights} by {name}" for weights, name in found.cpu.engines.items())
    return f"float32{packed}, --cpu-threads {found.cpu.threads} beside the codec's by default"
