"""``antiphon bench fabric``: cost of the path between a stage and the reader of its audio."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Any

from antiphon.cli.flags import flag
from antiphon_bench.commands.flags import JsonFile
from antiphon_bench.commands.outputs import refuse_unwritable, write
from antiphon_bench.commands.serve import counts_of, wide_console

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class FabricBenchFlags:
    """The flags of ``antiphon bench fabric``."""

    fabrics: Annotated[str, flag("local, process and ray, comma-separated.", True)] = (
        "local,process"
    )
    concurrency: Annotated[str, flag("Streams at the same time, comma-separated.", True)] = "1,64"
    chunks: Annotated[int, flag("Of each stream.", True, min=2)] = 200
    rounds: Annotated[int, flag("In which all streams get their first chunk.", True, min=1)] = 100
    interval_ms: Annotated[float, flag("Between two chunks of a stream.", True, min=1)] = 20.0
    json_file: JsonFile = None


def bench_fabric(flags: FabricBenchFlags) -> None:
    """Measure first audio, chunks and CPU time, with a stage that computes nothing."""
    from antiphon_bench.fabric import FabricLoad, run

    loads = [
        FabricLoad(
            num_streams=each,
            num_chunks=flags.chunks,
            num_rounds=flags.rounds,
            interval_s=flags.interval_ms / 1000,
        )
        for each in counts_of(flags.concurrency, "concurrency")
    ]
    refuse_unwritable(flags.json_file)
    fabrics = [name.strip() for name in flags.fabrics.split(",")]
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        report = runner.run(run(loads, fabrics))
    write(flags.json_file, json.dumps(report, indent=2) + "\n")
    wide_console().print(_table(report["results"]))


def _loop_factory() -> Any:
    """Return the kind of event loop that servers have."""
    if find_spec("uvloop") is None:
        return None
    import uvloop

    return uvloop.new_event_loop


def _table(results: Sequence[Mapping[str, Any]]) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(
        *("fabric", "streams", "first p50 ms", "first p99 ms", "chunk p50 ms", "chunk p99 ms"),
        *("CPU us, reader", "CPU us, stage", "times one"),
        box=SIMPLE,
    )
    for row in results:
        cpu_us = row["reader_cpu_us"] + row["stage_cpu_us"]
        first = next(each for each in results if each["fabric"] == row["fabric"])
        first_us = (first["reader_cpu_us"] + first["stage_cpu_us"]) * first["num_streams"]
        table.add_row(
            row["fabric"],
            str(row["num_streams"]),
            *(f"{row['first_ms'][each]:.3f}" for each in ("p50", "p99")),
            *(f"{row['chunk_ms'][each]:.3f}" for each in ("p50", "p99")),
            f"{row['reader_cpu_us']:.1f}",
            f"{row['stage_cpu_us']:.1f}",
            f"{cpu_us * row['num_streams'] / first_us:.1f}" if first_us else "",
        )
    return table
