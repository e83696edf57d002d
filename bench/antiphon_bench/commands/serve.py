"""``antiphon bench serve``: latency and continuity of the audio that a server streams."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.flags import flag
from antiphon.errors import SettingsError
from antiphon_bench.commands.flags import JsonFile, LoadFlags, MeasuredServerFlags
from antiphon_bench.commands.model import model_to_measure, refuse_without_random
from antiphon_bench.commands.outputs import exit_if_interrupted, refuse_unwritable, write
from antiphon_bench.commands.tables import Column, show_results, spread
from antiphon_bench.commands.values import counts_of, fields_of, frames_of, numbers_of

if TYPE_CHECKING:
    from antiphon_bench.load import HttpLoad
    from antiphon_bench.serve import HttpPlan
    from antiphon_bench.summary import HttpResult

_ANY_URL = "http://127.0.0.1"
_REQUESTS_A_STREAM = 8
_NO_ERRORS = ("ok", "refused")
_COLUMNS: Sequence[Column] = (
    ("load", "load", ""),
    ("audio-s / s", "audio_s_per_s", ".1f"),
    ("req / s", "requests_per_s", ".1f"),
    ("RTF p50", "real_time_factor.p50", ".3f"),
    *spread("first ms", "first_audio_ms", ".1f", "p50", "p90", "p95", "p99"),
    ("sound p50", "first_sound_ms.p50", ".1f"),
    ("continuity", "playback.continuity", ".1%"),
    ("halts s", "playback.underrun_s", ".2f"),
    ("ok", "ok", ""),
    ("429", "refused", ""),
    ("errors", "failures", ""),
    ("client", "client_cpu_share", ".0%"),
)


@dataclass(frozen=True, slots=True)
class ServeBenchFlags(LoadFlags):
    """The flags of ``antiphon bench serve``."""

    task: Annotated[str, flag("Of the random weights.", True)] = "custom_voice"
    max_slots: Annotated[
        int | None,
        flag("Requests that a server of our own works on.", "the most streams", min=1),
    ] = None
    front_ends: Annotated[
        int, flag("HTTP processes of a server of our own; 0: one process.", True, min=0)
    ] = 0
    placement: Annotated[
        str | None, flag("Placement of a server of our own: a profile, a file, or YAML in braces.")
    ] = None
    concurrency: Annotated[
        str | None,
        flag("Streams at a time, comma-separated; each goes on with its next request.", "1,8,32"),
    ] = None
    ramp_s: Annotated[float, flag("In which the streams begin, one by one.", True, min=0)] = 0.0
    requests: Annotated[int | None, flag("Of each load.", "8 a stream", min=1)] = None
    text_file: Annotated[Path | None, flag("One text a line.", "thirty of our own")] = None
    response_format: Annotated[str, flag("pcm or wav.", True)] = "pcm"
    sse: Annotated[bool, flag("Ask for events, which also count tokens.", True, "--sse")] = False
    json_file: JsonFile = None
    plot: Annotated[Path | None, flag("Draw it here, as SVG.")] = None

    def server_arguments(self) -> list[str]:
        """Return arguments of a server of our own."""
        placement = [] if self.placement is None else ["--placement", self.placement]
        front_ends = ["--front-ends", str(self.front_ends)] if self.front_ends else []
        return placement + front_ends

    def fields(self) -> dict[str, Any]:
        """Return the members of each request other than its text."""
        fields: dict[str, Any] = {"response_format": self.response_format}
        if self.voice is not None:
            fields["voice"] = self.voice
        if self.sse:
            fields["stream_format"] = "sse"
        return fields | fields_of(self.field, has_random_weights=self.random is not None)


def bench_serve(flags: ServeBenchFlags) -> None:
    """Measure a server over HTTP: one that runs (--url), or one of our own (--model, --random)."""
    from antiphon.cli.progress import shown_progress
    from antiphon_bench.report import serve_svg
    from antiphon_bench.serve import measure

    loads = loads_of(flags)
    refuse_unwritable(flags.json_file, flags.plot)
    _plan(
        flags, flags.url or _ANY_URL, loads
    )  # invalid combinations are reported before a model is loaded
    max_slots = flags.max_slots or max((load.concurrency for load in loads), default=0)
    with served_load(flags, flags.task, max_slots, flags.server_arguments()) as url:
        plan = _plan(flags, url, loads)
        with shown_progress("measuring", partial(typer.echo, err=True)) as progress:
            report = measure(plan, lambda each: typer.echo(_line(each), err=True), progress)
    show_results(_COLUMNS, map(_row, report["results"]))
    tell_errors(report["results"])
    write(flags.json_file, json.dumps(report, indent=2) + "\n")
    write(flags.plot, serve_svg(report))
    exit_if_interrupted(report["interrupted"])


def tell_errors(results: Sequence[Mapping[str, Any]]) -> None:
    """Write why requests failed, each reason once."""
    for message in sorted({each for row in results for each in row["errors"]}):
        typer.echo(message, err=True)


def loads_of(flags: ServeBenchFlags) -> "list[HttpLoad]":
    """Return all loads that the flags ask for: the closed ones first; raises SettingsError."""
    from antiphon_bench.load import HttpLoad

    wanted = flags.concurrency
    if wanted is None and flags.rate is None:
        wanted = "1,8,32"
    loads = [
        HttpLoad(
            concurrency=count,
            ramp_s=flags.ramp_s,
            num_requests=_num_requests(flags, _REQUESTS_A_STREAM * count),
            duration_s=flags.duration_s,
            seed=flags.seed,
        )
        for count in (counts_of(wanted, "concurrency") if wanted is not None else ())
    ]
    return loads + [
        HttpLoad(
            rate_hz=rate_hz,
            num_requests=_num_requests(flags, round(10 * rate_hz) or 1),
            duration_s=flags.duration_s,
            seed=flags.seed,
        )
        for rate_hz in (numbers_of(flags.rate, "rate") if flags.rate is not None else ())
    ]


def _num_requests(flags: ServeBenchFlags, default: int) -> int | None:
    """Return how many requests a load has; none if its duration limits it."""
    if flags.requests is not None:
        return flags.requests
    return None if flags.duration_s is not None else default


def _plan(flags: ServeBenchFlags, url: str, loads: "Sequence[HttpLoad]") -> "HttpPlan":
    from antiphon.family_check.texts import TEXTS
    from antiphon_bench.random_model import shortened
    from antiphon_bench.serve import HttpPlan, target_of
    from antiphon_bench.texts import read_texts

    texts = TEXTS if flags.text_file is None else read_texts(flags.text_file)
    if flags.random is not None:
        texts = tuple(shortened(text) for text in texts)
    return HttpPlan(
        target=target_of(
            url,
            api_key=flags.api_key,
            fields=flags.fields(),
            frames=frames_of(flags.frames),
            timeout_s=flags.timeout_s,
        ),
        loads=loads,
        texts=texts,
        warm_up_requests=flags.warmup,
        prebuffer_s=flags.prebuffer_ms / 1000,
        num_processes=flags.processes,
        notes={
            **{"model": flags.model, "random": flags.random},
            **{"family": flags.family, "task": flags.task, "front_ends": flags.front_ends},
            "placement": flags.placement,
        },
    )


@contextmanager
def served_load(
    flags: LoadFlags, task: str, max_slots: int, arguments: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the URL of the server to be measured; raises SettingsError.

    Args:
        flags: flags that name the server.
        task: task of random weights.
        max_slots: requests that a server of our own works on; 0: its default.
        arguments: further ones of a server of our own.
    """
    if (flags.url is None) == (flags.model is None and flags.random is None):
        raise SettingsError("Give either --url, or --model, or --random.")
    if flags.url is not None:
        refuse_without_random(flags.random, flags.family)
        yield flags.url
        return
    made = model_to_measure(flags.model, flags.random, task, flags.family)
    slots = ["--max-slots", str(max_slots)] if max_slots else []
    with made as source, served(flags, source, [*slots, *arguments]) as url:
        yield url


@contextmanager
def served(
    flags: MeasuredServerFlags, source: str | None, arguments: Sequence[str] = ()
) -> Iterator[str]:
    """Yield the URL of a server that runs, or of one of our own for ``source``."""
    from antiphon.cli.own_server import own_server

    if source is None or flags.url is not None:
        assert flags.url is not None, "there is no server"
        yield flags.url
        return
    with own_server([source, "--device", flags.device, *arguments], api_key=flags.api_key) as url:
        yield url


def _line(result: "HttpResult") -> str:
    from antiphon_bench.load import load_title

    title = load_title(asdict(result))
    return f"{title}: {result.audio_s_per_s:.1f} audio-s/s, {result.outcomes}"


def _row(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with what its load is called, and how many requests ended how."""
    from antiphon_bench.load import load_title

    outcomes = result["outcomes"]
    known = {name: outcomes.get(name, 0) for name in _NO_ERRORS}
    errors = sum(outcomes.values()) - sum(known.values())
    return {**result, "load": load_title(result), **known, "failures": errors}
