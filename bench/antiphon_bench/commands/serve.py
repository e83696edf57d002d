"""``antiphon bench serve``: latency and continuity of the audio that a server streams."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.flags import flag
from antiphon.errors import SettingsError
from antiphon_bench.commands.flags import JsonFile, LoadFlags, MeasuredServerFlags
from antiphon_bench.commands.model import model_to_measure, refuse_without_random
from antiphon_bench.commands.outputs import exit_if_interrupted, refuse_unwritable, write

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from antiphon_bench.load import HttpLoad
    from antiphon_bench.serve import HttpPlan

_ANY_URL = "http://127.0.0.1"
_REQUESTS_A_STREAM = 8
_TABLE_WIDTH = 150
_NO_ERRORS = ("ok", "refused")


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
    wide_console().print(_table(report["results"]))
    tell_errors(report["results"])
    write(flags.json_file, json.dumps(report, indent=2) + "\n")
    write(flags.plot, serve_svg(report))
    exit_if_interrupted(report["interrupted"])


def tell_errors(results: Sequence[Mapping[str, Any]]) -> None:
    """Write why requests failed, each reason once."""
    for message in sorted({each for row in results for each in row["errors"]}):
        typer.echo(message, err=True)


def wide_console() -> "Console":
    """Return a console that a table of many columns fits on, if need be beyond its edge."""
    from rich.console import Console

    console = Console()
    return console if console.width >= _TABLE_WIDTH else Console(width=_TABLE_WIDTH)


def loads_of(flags: ServeBenchFlags) -> "list[HttpLoad]":
    """Return all loads that the flags ask for: the closed ones first.

    Raises:
        SettingsError: a list is none.
    """
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


def counts_of(given: str, name: str) -> list[int]:
    """Read a list of numbers of streams, as ``"1,8,32"``.

    Raises:
        SettingsError: it is none.
    """
    numbers = numbers_of(given, name)
    if any(number != int(number) for number in numbers):
        raise SettingsError(f"--{name}: '{given}': whole numbers are wanted.")
    return [int(number) for number in numbers]


def numbers_of(given: str, name: str) -> list[float]:
    """Read a list of numbers above 0, as ``"0.5,2"``; raises SettingsError if it is none."""
    try:
        numbers = [float(each) for each in given.split(",")]
    except ValueError as error:
        raise SettingsError(f"--{name}: '{given}' is no list of numbers.") from error
    if not all(0 < number < 1e6 for number in numbers):
        raise SettingsError(f"--{name}: '{given}': numbers above 0 are wanted.")
    return numbers


def _num_requests(flags: ServeBenchFlags, default: int) -> int | None:
    """Return how many requests a load has; none if its duration limits it."""
    if flags.requests is not None:
        return flags.requests
    return None if flags.duration_s is not None else default


def fields_of(given: Sequence[str] | None, *, has_random_weights: bool = False) -> dict[str, Any]:
    """Read ``--field``: members of a request by name; random weights end speech anywhere."""
    own = {"ignore_eos": True} if has_random_weights else {}
    return own | dict(_field(each) for each in given or ())


def _field(given: str) -> tuple[str, Any]:
    name, separator, value = given.partition("=")
    if not separator or not name:
        raise SettingsError("--field is not KEY=VALUE.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def frames_of(given: str | None) -> tuple[int, int] | None:
    """Read ``--frames``: two numbers, or one."""
    if given is None:
        return None
    fewest, _, most = given.partition("-")
    try:
        frames = int(fewest), int(most or fewest)
    except ValueError:
        frames = 0, 0
    if not 1 <= frames[0] <= frames[1]:
        raise SettingsError(f"--frames: '{given}' is not FEWEST-MOST, as in 60-140.")
    return frames


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
    """Yield the URL of the server to be measured.

    Args:
        flags: flags that name the server.
        task: task of random weights.
        max_slots: requests that a server of our own works on; 0: its default.
        arguments: further ones of a server of our own.

    Raises:
        SettingsError: not exactly one of the three ways to name it is used.
    """
    if (flags.url is None) == (flags.model is None and flags.random is None):
        raise SettingsError("Give either --url, or --model, or --random.")
    if flags.url is not None:
        refuse_without_random(flags.random, flags.family, flags.random_dir)
        yield flags.url
        return
    made = model_to_measure(
        flags.model, flags.random, task, flags.family, random_dir=flags.random_dir
    )
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


def _line(result: Any) -> str:
    what = f"{result.concurrency} streams" if result.concurrency else f"{result.rate_hz:g} / s"
    return f"{what}: {result.audio_s_per_s:.1f} audio-s/s, {result.outcomes}"


def _table(results: Sequence[Mapping[str, Any]]) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(
        *("load", "audio-s / s", "req / s", "RTF p50"),
        *("first ms p50", "p90", "p95", "p99", "sound p50"),
        *("continuity", "halts s", "ok", "429", "errors", "client"),
        box=SIMPLE,
    )
    for row in results:
        first, sound, rtf = (
            row[name] or {} for name in ("first_audio_ms", "first_sound_ms", "real_time_factor")
        )
        playback, outcomes = row["playback"] or {}, row["outcomes"]
        num_errors = sum(outcomes.values()) - sum(outcomes.get(each, 0) for each in _NO_ERRORS)
        is_closed = bool(row["concurrency"])
        table.add_row(
            f"{row['concurrency']} streams" if is_closed else f"{row['rate_hz']:g} / s",
            f"{row['audio_s_per_s']:.1f}",
            f"{row['requests_per_s']:.1f}",
            _shown(rtf, "p50", 3),
            *(_shown(first, name, 1) for name in ("p50", "p90", "p95", "p99")),
            _shown(sound, "p50", 1),
            f"{playback['continuity']:.1%}" if playback else "",
            _shown(playback, "underrun_s", 2),
            *(str(outcomes.get(name, 0)) for name in _NO_ERRORS),
            str(num_errors),
            f"{row['client_cpu_share']:.0%}",
        )
    return table


def _shown(figures: Mapping[str, float], name: str, num_digits: int) -> str:
    return f"{figures[name]:.{num_digits}f}" if name in figures else ""
