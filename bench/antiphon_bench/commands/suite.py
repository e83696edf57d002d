"""``antiphon bench suite``: a server in all tasks, languages, lengths, ways and loads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.flags import flag
from antiphon.errors import SettingsError
from antiphon_bench.commands.flags import LoadFlags
from antiphon_bench.commands.outputs import (
    exit_if_interrupted,
    make_folder,
    refuse_unwritable,
    write,
)
from antiphon_bench.commands.serve import served_load
from antiphon_bench.commands.values import counts_of, fields_of, frames_of, numbers_of

if TYPE_CHECKING:
    from antiphon_bench.load import HttpLoad
    from antiphon_bench.suite import Cell, SuitePlan
    from antiphon_bench.trace import Trace

_REQUESTS_A_STREAM = 8
_ANY_URL = "http://127.0.0.1"
_FEWEST_REQUESTS = 20
_BURSTS = 4
_REPORTS = ("report.json", "report.md", "report.html")


@dataclass(frozen=True, slots=True)
class SuiteFlags(LoadFlags):
    """The flags of ``antiphon bench suite``."""

    adapter: Annotated[
        str, flag("How it is asked: antiphon, vllm-omni, sglang-omni, ....", True)
    ] = "antiphon"
    adapter_file: Annotated[Path | None, flag("Adapters of your own, as YAML.")] = None
    tasks: Annotated[str, flag("custom_voice, voice_design, base; comma-separated.", True)] = (
        "custom_voice"
    )
    languages: Annotated[str, flag("en, zh, mixed; comma-separated.", True)] = "en"
    lengths: Annotated[str, flag("short, medium, long; comma-separated.", True)] = (
        "short,medium,long"
    )
    modes: Annotated[str, flag("stream, whole, text_stream; comma-separated.", True)] = "stream"
    concurrency: Annotated[
        str | None, flag("Streams at a time, comma-separated.", "1,8 if no load is given")
    ] = None
    bursts: Annotated[
        str | None, flag("Bursts, SIZE@RATE: 8@4 is eight at once, every two seconds.")
    ] = None
    trace: Annotated[Path | None, flag("Replay this load: JSON lines with at_s and input.")] = None
    requests: Annotated[
        int | None, flag("Of each load and round.", "8 a stream, at least 20", min=1)
    ] = None
    rounds: Annotated[int, flag("Each cell is measured so often.", True, min=1)] = 3
    instructions: Annotated[str, flag("Of designed voices.", True)] = (
        "A calm, warm voice of middle age, close to the microphone."
    )
    ref_audio: Annotated[
        Path | None, flag("Recording to be cloned, WAV.", "one that the default voice makes")
    ] = None
    ref_text: Annotated[str | None, flag("Transcript of the recording.")] = None
    frame_rate_hz: Annotated[
        float | None, flag("Frames a second of audio, where servers do not count them.")
    ] = None
    pieces_per_s: Annotated[
        float, flag("Words a second of text that streams in; 0: all at once.", True, min=0)
    ] = 20.0
    out: Annotated[Path, flag("Folder for report.json, report.md and report.html.", True)] = Path(
        "bench-report"
    )


def bench_suite(flags: SuiteFlags) -> None:
    """Measure a server in many ways and write a report: JSON, Markdown, and HTML with diagrams."""
    from antiphon.cli.progress import shown_progress
    from antiphon_bench.report import suite_html, suite_markdown
    from antiphon_bench.suite import run_suite, target_for
    from antiphon_bench.trace import read_trace

    trace = None if flags.trace is None else read_trace(flags.trace)
    cells = cells_of(flags, trace)
    tasks = {cell.task for cell in cells}
    if len({cell.name for cell in cells}) < len(cells):
        raise SettingsError("The same is asked for twice: give each task, load and so on once.")
    if flags.random is not None and len(tasks) > 1:
        raise SettingsError("--tasks: a checkpoint of random weights has one task.")
    make_folder(flags.out)
    files = [flags.out / name for name in _REPORTS]
    refuse_unwritable(*files)
    plan = _plan(flags, flags.url or _ANY_URL, cells, trace)
    for cell in cells:
        target_for(plan, cell)  # invalid combinations are reported before a model is loaded
    num_streams = max(cell.load.concurrency for cell in cells)
    with served_load(flags, min(tasks), num_streams) as url:
        plan = replace(plan, url=url)
        with shown_progress("measuring", partial(typer.echo, err=True)) as progress:
            report = run_suite(plan, progress)
    texts = (json.dumps(report) + "\n", suite_markdown(report), suite_html(report))
    typer.echo(texts[1])
    for file, text in zip(files, texts, strict=True):
        write(file, text)
    exit_if_interrupted(report["interrupted"])


def cells_of(flags: SuiteFlags, trace: "Trace | None") -> "list[Cell]":
    """Return all cells that the flags ask for; raises SettingsError."""
    from antiphon_bench.adapters import MODES, TASKS
    from antiphon_bench.corpus import LANGUAGES, LENGTHS
    from antiphon_bench.suite import Cell

    tasks = _named(flags.tasks, TASKS, "tasks")
    modes = _named(flags.modes, MODES, "modes")
    languages = _named(flags.languages, LANGUAGES, "languages")
    lengths = _named(flags.lengths, LENGTHS, "lengths")
    has_texts = trace is not None and bool(trace.texts)
    kinds = [(a, b) for a in languages for b in lengths]
    cells = [
        Cell(task=task, language=language, length=length, mode=mode, load=load)
        for task in tasks
        for language, length in kinds
        for mode in modes
        for load in _loads(flags)
    ]
    if trace is not None:
        replayed = _load(flags, times_s=trace.times_s, num_requests=len(trace.times_s))
        cells += [
            Cell(task=task, language=language, length=length, mode=mode, load=replayed)
            for task in tasks
            for language, length in ([("trace", "own")] if has_texts else kinds)
            for mode in modes
        ]
    return cells


def _loads(flags: SuiteFlags) -> "list[HttpLoad]":
    wanted = flags.concurrency
    if not (wanted or flags.rate or flags.bursts or flags.trace):
        wanted = "1,8"

    def requests(usual: int) -> int | None:
        if flags.requests is not None:
            return flags.requests
        return None if flags.duration_s is not None else max(_FEWEST_REQUESTS, usual)

    loads = [
        _load(flags, concurrency=count, num_requests=requests(_REQUESTS_A_STREAM * count))
        for count in (counts_of(wanted, "concurrency") if wanted else ())
    ]
    loads += [
        _load(flags, rate_hz=rate_hz, num_requests=requests(round(10 * rate_hz)))
        for rate_hz in (numbers_of(flags.rate, "rate") if flags.rate else ())
    ]
    for each in flags.bursts.split(",") if flags.bursts else ():
        size, separator, rate = each.partition("@")
        if not separator:
            raise SettingsError(f"--bursts: '{each}' is not SIZE@RATE, as in 8@4.")
        (count,), (rate_hz,) = counts_of(size, "bursts"), numbers_of(rate, "bursts")
        more = requests(count * _BURSTS)
        loads.append(_load(flags, burst_size=count, rate_hz=rate_hz, num_requests=more))
    return loads


def _load(flags: SuiteFlags, **more: Any) -> "HttpLoad":
    from antiphon_bench.load import HttpLoad

    return replace(HttpLoad(seed=flags.seed, duration_s=flags.duration_s), **more)


def _named(given: str, known: Sequence[Any], name: str) -> list[Any]:
    names = [each.strip() for each in given.split(",")]
    for each in names:
        if each not in known:
            raise SettingsError(f"--{name}: '{each}' is unknown; there are {', '.join(known)}.")
    return names


def _plan(
    flags: SuiteFlags, url: str, cells: "Sequence[Cell]", trace: "Trace | None"
) -> "SuitePlan":
    from antiphon_bench.adapters import adapter
    from antiphon_bench.reference import reference_values
    from antiphon_bench.suite import SuitePlan

    values = {"instructions": flags.instructions}
    if any(cell.task == "base" for cell in cells):
        values |= reference_values(flags.ref_audio, flags.ref_text)
    return SuitePlan(
        url=url,
        adapter=adapter(flags.adapter, flags.adapter_file),
        cells=cells,
        rounds=flags.rounds,
        voice=flags.voice,
        values=values,
        fields=fields_of(flags.field, has_random_weights=flags.random is not None),
        frames=frames_of(flags.frames),
        trace=trace,
        api_key=flags.api_key,
        warm_up_requests=flags.warmup,
        prebuffer_s=flags.prebuffer_ms / 1000,
        pieces_per_s=flags.pieces_per_s,
        timeout_s=flags.timeout_s,
        frame_rate_hz=flags.frame_rate_hz,
        num_processes=flags.processes,
        has_random_weights=flags.random is not None,
        notes={"model": flags.model, "random": flags.random, "family": flags.family},
    )
