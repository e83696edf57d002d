"""``antiphon bench fabric``: cost of the path between a stage and the reader of its audio."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from antiphon.cli.flags import flag
from antiphon_bench.commands.flags import JsonFile
from antiphon_bench.commands.outputs import refuse_unwritable, write
from antiphon_bench.commands.tables import Column, show_results
from antiphon_bench.commands.values import counts_of

_COLUMNS: Sequence[Column] = (
    ("fabric", "fabric", ""),
    ("streams", "num_streams", ""),
    ("first p50 ms", "first_ms.p50", ".3f"),
    ("first p99 ms", "first_ms.p99", ".3f"),
    ("chunk p50 ms", "chunk_ms.p50", ".3f"),
    ("chunk p99 ms", "chunk_ms.p99", ".3f"),
    ("CPU us, reader", "reader_cpu_us", ".1f"),
    ("CPU us, stage", "stage_cpu_us", ".1f"),
    ("times one", "times_one", ".1f"),
)


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
    from antiphon_bench.driver import loop_factory
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
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        report = runner.run(run(loads, fabrics))
    write(flags.json_file, json.dumps(report, indent=2) + "\n")
    first = {each["fabric"]: each for each in reversed(report["results"])}
    show_results(_COLUMNS, [_row(each, first[each["fabric"]]) for each in report["results"]])


def _row(result: Mapping[str, Any], first: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with its CPU time as a multiple of that of the fabric's first result."""
    cpu_us, first_us = (
        (each["reader_cpu_us"] + each["stage_cpu_us"]) * each["num_streams"]
        for each in (result, first)
    )
    return {**result, "times_one": cpu_us / first_us if first_us else None}
