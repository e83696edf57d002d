"""``antiphon bench``: how fast a server is, or a model's stages without one, on this machine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.flags import add_command, flag
from antiphon_bench.commands.chat import ChatBenchFlags, bench_chat
from antiphon_bench.commands.compare import CompareFlags, bench_compare
from antiphon_bench.commands.fabric import FabricBenchFlags, bench_fabric
from antiphon_bench.commands.flags import (
    CpuThreads,
    Device,
    Dtype,
    JsonFile,
    Quantize,
    RandomFamily,
)
from antiphon_bench.commands.model import model_to_measure, random_source
from antiphon_bench.commands.outputs import interruptible, refuse_unwritable, write
from antiphon_bench.commands.quality import QualityFlags, bench_quality
from antiphon_bench.commands.serve import ServeBenchFlags, bench_serve
from antiphon_bench.commands.suite import SuiteFlags, bench_suite
from antiphon_bench.commands.tables import Column, show_results, wide_console
from antiphon_bench.commands.values import counts_of

if TYPE_CHECKING:
    from rich.table import Table

    from antiphon_bench.engine import Result

_COLUMNS: Sequence[Column] = (
    ("streams", "concurrency", ""),
    ("ms a frame", "frame_ms", ".2f"),
    ("RTF", "real_time_factor", ".3f"),
    ("audio-s / s", "audio_s_per_s", ".1f"),
    ("first p50 ms", "first_audio_ms.p50", ".1f"),
    ("first p95 ms", "first_audio_ms.p95", ".1f"),
    ("first p99 ms", "first_audio_ms.p99", ".1f"),
    ("gap p99 ms", "chunk_gap_ms.p99", ".1f"),
    ("continuity", "playback.continuity", ".1%"),
    ("restarts", "num_restarts", ""),
)
app = typer.Typer(help="Measure speed, and how speech sounds.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class EngineBenchFlags:
    """The flags of ``antiphon bench engine``."""

    model: Annotated[
        str | None,
        typer.Argument(help="A built-in model or a checkpoint's directory.", show_default=False),
    ] = None
    random: Annotated[
        str | None,
        flag("Size of a checkpoint of random weights, made for this: 1.7b, 0.6b or tiny."),
    ] = None
    family: RandomFamily = None
    task: Annotated[
        str, flag("Of the random checkpoint: custom_voice, base or voice_design.", True)
    ] = "custom_voice"
    concurrency: Annotated[str, flag("Streams at the same time, comma-separated.", True)] = "1,8,32"
    frames: Annotated[int, flag("Frames that each stream makes.", True, min=1)] = 200
    device: Device = "auto"
    dtype: Dtype = "auto"
    quantize: Quantize = None
    cpu_threads: CpuThreads = None
    json_file: JsonFile = None


def bench_engine(flags: EngineBenchFlags) -> None:
    """Measure the stages of a model without HTTP, all streams beginning at once.

    On a GPU it also measures what bounds them: copying memory, and a frame's bare matrix products.
    """
    import asyncio

    from antiphon.config.sources import load_settings
    from antiphon_bench.engine import Load, run

    refuse_unwritable(flags.json_file)
    text = _text(flags)
    counts = counts_of(flags.concurrency, "concurrency")
    loads = [Load(each, flags.frames, text) for each in counts]
    made = model_to_measure(flags.model, flags.random, flags.task, flags.family)
    with made as source:
        given = {
            "model.source": source,
            "model.device": flags.device,
            "model.dtype": flags.dtype,
            "model.quantize": flags.quantize,
            "model.cpu_threads": flags.cpu_threads,
            "model.max_slots": max(load.concurrency for load in loads),
        }
        report = asyncio.run(run(load_settings(given).model, loads, _tell))
    if flags.random is not None:
        report["model"] |= {"source": random_source(flags.family, flags.random, flags.task)}
    show_results(_COLUMNS, report["results"])
    if report["bound"] is not None:
        wide_console().print(_bound_table(report["bound"]))
    write(flags.json_file, json.dumps(report, indent=2) + "\n")


def _tell(result: "Result") -> None:
    """Write the result of a load as soon as it is known."""
    summary = f"{result.concurrency} streams: {result.audio_s_per_s:.1f} audio-s/s"
    typer.echo(f"{summary}, {result.frame_ms:.2f} ms a frame", err=True)


def _text(flags: EngineBenchFlags) -> str:
    """Return a text that is long enough, by the family's own measure where weights are random."""
    from antiphon.families.measured import measured_family
    from antiphon_bench.engine import text_for

    if flags.random is None:
        return text_for(flags.frames, has_real_tokens=True)
    _, measuring = measured_family(flags.family)
    return text_for(
        flags.frames, has_real_tokens=False, frames_per_token=measuring.frames_per_token
    )


def _bound_table(bound: Mapping[str, Any]) -> "Table":
    from rich.table import Table

    title = f"{bound['gpu']}: {bound['copy_gb_per_s']:.0f} GB/s copied"
    table = Table("rows", "bare products of a frame, ms", title=title)
    for rows, products_ms in bound["products_ms"].items():
        table.add_row(rows, f"{products_ms:.2f}")
    return table


add_command(app, "chat", ChatBenchFlags, interruptible(bench_chat))
add_command(app, "compare", CompareFlags, bench_compare)
add_command(app, "engine", EngineBenchFlags, interruptible(bench_engine))
add_command(app, "fabric", FabricBenchFlags, interruptible(bench_fabric))
add_command(app, "quality", QualityFlags, interruptible(bench_quality))
add_command(app, "serve", ServeBenchFlags, interruptible(bench_serve))
add_command(app, "suite", SuiteFlags, interruptible(bench_suite))
