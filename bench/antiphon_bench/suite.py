"""Benchmark of a server over all cells of a suite: tasks, languages, lengths, modes and loads.

Each combination is a cell, measured in rounds. Rounds are the outer loop: what drifts on a machine
drifts over all cells alike. A report keeps the times of every request: all figures follow from
them, and two reports can be compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from antiphon.contracts.types import LoadProgress
from antiphon.errors import SettingsError
from antiphon_bench.adapters import Mode, ServerAdapter, TaskName
from antiphon_bench.corpus import texts_of
from antiphon_bench.driver import Done, PartResult, Runs, client_processes, run_or_cut
from antiphon_bench.load import TIMEOUT_S, HttpLoad, Target, load_name
from antiphon_bench.machine import provenance
from antiphon_bench.metrics import figures, throughput
from antiphon_bench.omni_names import omni_figures
from antiphon_bench.random_model import shortened
from antiphon_bench.record import Record
from antiphon_bench.serve import default_processes, refuse_empty, target_of, warm_up
from antiphon_bench.trace import Trace

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination.

    Attributes:
        language: language of the texts; ``"trace"`` if a trace brings them.
        mode: transport of audio and text.
    """

    task: TaskName
    language: str
    length: str
    mode: Mode
    load: HttpLoad

    @property
    def name(self) -> str:
        return "/".join((self.task, self.language, self.length, self.mode, load_name(self.load)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SuitePlan:
    """All measurements of a suite.

    Attributes:
        adapter: requests of this kind of server.
        voice: name of the voice; ``None``: the adapter's default.
        values: values that tasks need: ``instructions``, ``ref_audio``, ``ref_text``.
        fields: further members of each request.
        trace: trace whose texts are spoken in order of its times; ``None``: no trace.
        warm_up_requests: requests before each measurement; ``None``: one per stream.
        prebuffer_s: audio that is buffered before playback begins.
        pieces_per_s: rate at which text is written, where it streams.
        timeout_s: time limit of an answer.
        frame_rate_hz: frame rate of the model, where servers do not count frames.
        has_random_weights: whether texts are cut to the tokens that a published tokenizer makes.
    """

    url: str
    adapter: ServerAdapter
    cells: Sequence[Cell]
    rounds: int = 1
    voice: str | None = None
    values: Mapping[str, str] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    frames: tuple[int, int] | None = None
    trace: Trace | None = None
    api_key: str | None = None
    warm_up_requests: int | None = None
    prebuffer_s: float = 0.0
    pieces_per_s: float = 0.0
    timeout_s: float = TIMEOUT_S
    frame_rate_hz: float | None = None
    has_random_weights: bool = False
    num_processes: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


def target_for(plan: SuitePlan, cell: Cell) -> Target:
    """Return the server and the common members of a cell's requests; raises SettingsError."""
    adapter = plan.adapter
    members = adapter.members(cell.task, cell.mode, plan.voice, plan.values) | dict(plan.fields)
    given = {"response_format": "pcm"} | members
    target = target_of(
        plan.url,
        api_key=plan.api_key,
        fields=given,
        frames=plan.frames,
        timeout_s=plan.timeout_s,
    )
    base = urlsplit(plan.url).path.rstrip("/").removesuffix("/v1")
    if cell.mode != "text_stream":
        return replace(
            target,
            path=base + adapter.path,
            fields=members,
            tokens_header=adapter.tokens_header,
        )
    assert adapter.text_stream is not None
    return replace(
        target,
        path=base + adapter.text_stream.path,
        fields=members,
        text_stream=adapter.text_stream,
        pieces_per_s=plan.pieces_per_s,
    )


def run_suite(plan: SuitePlan, progress: LoadProgress) -> dict[str, Any]:
    """Measure all cells, round by round, and return the report for JSON.

    ``progress`` counts ``"cells"``, and ``"requests"`` if their total is known.

    An interrupt ends it: the report then has what was measured, of the last cell the requests that
    had been answered, and leaves cells out of which nothing is known.

    Raises:
        SettingsError: the server cannot be asked for a cell; nothing has been measured then.
        KeyboardInterrupt: nothing had been measured.
    """
    targets = [target_for(plan, cell) for cell in plan.cells]
    if not plan.cells:
        raise SettingsError("There is nothing to measure.")
    refuse_empty([cell.load for cell in plan.cells])
    rounds: list[list[list[Record]]] = [[] for _ in plan.cells]
    cpu_shares = [0.0] * len(plan.cells)
    num_processes = plan.num_processes or default_processes()
    steps = [(number, index) for number in range(plan.rounds) for index in range(len(plan.cells))]
    is_interrupted = False
    try:
        with client_processes(num_processes) as run:
            for step, (number, index) in enumerate(steps):
                progress("cells", step, len(steps))
                done = partial(_report_done, progress, plan, step)
                parts, is_interrupted = _measured(run, plan, index, targets[index], number, done)
                if records := _in_order(parts):
                    rounds[index].append(records)
                    busiest = max(part.cpu_share for part in parts)
                    cpu_shares[index] = max(cpu_shares[index], busiest)
                if is_interrupted:
                    break
            else:
                progress("cells", len(steps), len(steps))
    except KeyboardInterrupt:
        is_interrupted = True
    if is_interrupted and not any(rounds):
        raise KeyboardInterrupt
    results = [
        result_of(cell, found, plan, cpu_share)
        for cell, found, cpu_share in zip(plan.cells, rounds, cpu_shares, strict=True)
        if found
    ]
    report = {
        "kind": "suite",
        "schema": SCHEMA,
        **provenance(),
        **_settings_of(plan),
        "client_processes": num_processes,
        **plan.notes,
        "interrupted": is_interrupted,
        "cells": results,
    }
    return dict(targets[0].redaction.value(report))


def _settings_of(plan: SuitePlan) -> dict[str, Any]:
    return {
        "server": plan.adapter.title,
        "voice": plan.voice or plan.adapter.default_voice,
        "fields": dict(plan.fields),
        "frames": plan.frames,
        "rounds": plan.rounds,
        "prebuffer_s": plan.prebuffer_s,
        "pieces_per_s": plan.pieces_per_s,
        "timeout_s": plan.timeout_s,
        "frame_rate_hz": plan.frame_rate_hz,
    }


def result_of(
    cell: Cell, rounds: Sequence[Sequence[Record]], plan: SuitePlan, cpu_share: float = 0.0
) -> dict[str, Any]:
    """Return the result of a cell for JSON: figures, vLLM-Omni's names for them, and all times."""
    records = [record for each in rounds for record in each]
    outcomes = {each.outcome for each in records}
    counts = {name: sum(each.outcome == name for each in records) for name in sorted(outcomes)}
    return {
        "cell": cell.name,
        **{name: value for name, value in asdict(cell).items() if name != "load"},
        "load": {name: value for name, value in asdict(cell.load).items() if name != "times_s"},
        "outcomes": counts,
        "errors": sorted({each.message for each in records if each.message})[:5],
        "client_cpu_share": cpu_share,
        "figures": figures(rounds, plan.prebuffer_s),
        "throughput": throughput(rounds, plan.frame_rate_hz),
        "vllm_omni": omni_figures(rounds, plan.prebuffer_s),
        "records": [[raw(record, each) for record in each] for each in rounds],
    }


def raw(record: Record, of: Sequence[Record]) -> dict[str, Any]:
    """Return a request's times for JSON, in seconds since the first of its round was due."""
    zero_s = min(each.due_s for each in of)

    def since(at_s: float | None) -> float | None:
        return None if at_s is None else round(at_s - zero_s, 6)

    values = asdict(record)
    return {
        **{name: since(values[name]) for name in _TIMES},
        "arrivals_s": [since(at_s) for at_s in record.arrivals_s],
        "durations_s": [round(each, 6) for each in record.durations_s],
        **{name: values[name] for name in _OTHERS},
    }


def rounds_of(cell: Mapping[str, Any]) -> list[list[Record]]:
    """Return the requests of a cell out of a report, by round."""
    return [[record_from(each) for each in records] for records in cell["records"]]


def record_from(found: Mapping[str, Any]) -> Record:
    """Return a request out of a report."""
    return Record(
        **{name: found[name] for name in (*_TIMES, *_OTHERS)},
        arrivals_s=tuple(found["arrivals_s"]),
        durations_s=tuple(found["durations_s"]),
    )


_TIMES = ("due_s", "sent_s", "first_byte_s", "first_sound_s", "ended_s")
_OTHERS = ("index", "outcome", "status", "num_characters", "num_tokens")


def _measured(
    run: Runs, plan: SuitePlan, index: int, target: Target, number: int, done: Done
) -> tuple[list[PartResult], bool]:
    """Return the result of a cell's round, and whether it was interrupted."""
    cell = plan.cells[index]
    load = replace(cell.load, seed=cell.load.seed + number)
    is_told = plan.trace is not None and bool(plan.trace.texts)
    texts = plan.trace.texts if plan.trace and is_told else texts_of(cell.language, cell.length)
    if plan.has_random_weights:
        texts = tuple(shortened(text) for text in texts)
    warm_up(run, target, texts, load, plan.warm_up_requests)
    parts, is_interrupted = run_or_cut(run, load, target, texts, done)
    done(sum(len(part.records) for part in parts))
    return parts, is_interrupted


def _report_done(progress: LoadProgress, plan: SuitePlan, step: int, num_done: int) -> None:
    """Report the number of finished requests, including those of earlier steps."""
    counts = [cell.load.num_requests for cell in plan.cells]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        rounds, rest = divmod(step, len(known))
        before = rounds * sum(known) + sum(known[:rest])
        progress("requests", before + num_done, plan.rounds * sum(known))


def _in_order(parts: Sequence[PartResult]) -> list[Record]:
    return sorted(
        (record for part in parts for record in part.records), key=lambda each: each.index
    )
