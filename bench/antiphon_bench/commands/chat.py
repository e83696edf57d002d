"""``antiphon bench chat``: how fast a model writes, and what bounds it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.flags import flag
from antiphon.errors import SettingsError
from antiphon_bench.commands.flags import ApiKey, Device, Dtype, JsonFile, RandomDir, RandomFamily
from antiphon_bench.commands.model import model_to_measure
from antiphon_bench.commands.outputs import refuse_unwritable, write
from antiphon_bench.commands.serve import counts_of, fields_of, tell_errors, wide_console

if TYPE_CHECKING:
    from rich.table import Table

    from antiphon_bench.chat import ChatResult
    from antiphon_bench.spoken_chat import SpokenResult


_TIMES = ("first_text", "audio_after_text", "first_audio")


@dataclass(frozen=True, slots=True)
class ChatBenchFlags:
    """The flags of ``antiphon bench chat``."""

    model: Annotated[str | None, flag("A checkpoint's directory, or a built-in model.")] = None
    random: Annotated[
        str | None,
        flag("Size of a checkpoint of random weights, made for this: 7b, 1b, 0.6b, 135m or tiny."),
    ] = None
    family: RandomFamily = None
    random_dir: RandomDir = None
    task: Annotated[
        str, flag("Layout of the random checkpoint: qwen3, qwen2, llama or thinker.", True)
    ] = "qwen3"
    concurrency: Annotated[str, flag("Conversations at a time, comma-separated.", True)] = "1,8,64"
    tokens: Annotated[int, flag("Of each answer.", True, min=2)] = 200
    max_slots: Annotated[
        int | None, flag("Requests that the model has room for.", "the most conversations", min=1)
    ] = None
    device: Device = "auto"
    dtype: Dtype = "auto"
    json_file: JsonFile = None
    url: Annotated[
        str | None,
        flag("Converse with a server that is running, whose answers are spoken; --model names it."),
    ] = None
    voice: Annotated[str | None, flag("Of a server: who speaks.", "the server's default")] = None
    turns: Annotated[int, flag("Of a server: answers of each conversation.", True, min=1)] = 2
    ramp_s: Annotated[
        float, flag("Of a server: in which the conversations begin, one by one.", True, min=0)
    ] = 0.0
    letters: Annotated[
        bool, flag("Of a server of random weights: have it write what can be said.", True)
    ] = False
    field: Annotated[
        list[str] | None,
        flag("Of a server: further member KEY=VALUE of each request; VALUE may be JSON."),
    ] = None
    api_key: ApiKey = None
    timeout_s: Annotated[
        float,
        flag("Of a server: an answer that is not complete by then has failed.", True, min=0.1),
    ] = 600.0

    def fields(self) -> dict[str, Any]:
        """Return the members of each request other than its messages."""
        from antiphon_bench.spoken_chat import letters_of_bytes

        fields: dict[str, Any] = {"max_tokens": self.tokens}
        if self.model is not None:
            fields["model"] = self.model
        if self.voice is not None:
            fields["audio"] = {"voice": self.voice}
        return fields | (letters_of_bytes() if self.letters else {}) | fields_of(self.field)


def bench_chat(flags: ChatBenchFlags) -> None:
    """Measure a chat model without HTTP, or answers that a server speaks while it writes them.

    Without --url all conversations begin at once; tokens are drawn as the checkpoint says, but none
    that would end an answer. On a GPU it also measures what bounds them: copying memory, and a
    token's bare matrix products.
    """
    refuse_unwritable(flags.json_file)
    report = _without_server(flags) if flags.url is None else _with_server(flags, flags.url)
    write(flags.json_file, json.dumps(report, indent=2) + "\n")


def _with_server(flags: ChatBenchFlags, url: str) -> dict[str, Any]:
    """Measure answers that are spoken."""
    from antiphon_bench.spoken_chat import SpokenLoad, measure_spoken, spoken_target

    of_models = ("random", "family", "random_dir", "task", "max_slots", "device", "dtype")
    given = [
        "--" + each.name.replace("_", "-")
        for each in dataclass_fields(flags)
        if each.name in of_models and asdict(flags)[each.name] != each.default
    ]
    if given:
        raise SettingsError(f"--url names a server that is running: leave {', '.join(given)} out.")
    counts = counts_of(flags.concurrency, "concurrency")
    loads = [SpokenLoad(each, flags.turns, flags.ramp_s) for each in counts]
    target = spoken_target(url, flags.fields(), flags.api_key, flags.timeout_s)
    report = measure_spoken(target, loads, _tell_spoken)
    wide_console().print(_spoken_table(report["results"]))
    tell_errors(report["results"])
    return report


def _without_server(flags: ChatBenchFlags) -> dict[str, Any]:
    """Measure a model in this process."""
    import asyncio

    from antiphon.config.sources import load_settings
    from antiphon_bench.chat import QUESTION, ChatLoad, run_chat
    from antiphon_bench.random_model import shortened

    of_server = ("voice", "ramp_s", "letters", "field", "api_key")
    given = ["--" + name.replace("_", "-") for name in of_server if asdict(flags)[name]]
    if given:
        raise SettingsError(f"{', '.join(given)}: of a server, which --url must name.")
    question = QUESTION if flags.random is None else shortened(QUESTION)
    counts = counts_of(flags.concurrency, "concurrency")
    loads = [ChatLoad(each, flags.tokens, question) for each in counts]
    made = model_to_measure(
        flags.model, flags.random, flags.task, flags.family, "chat", flags.random_dir
    )
    with made as source:
        values = {
            "model.source": source,
            "model.device": flags.device,
            "model.dtype": flags.dtype,
            "model.max_slots": flags.max_slots or max(counts),
        }
        report = asyncio.run(run_chat(load_settings(values).model, loads, _tell))
    if flags.random is not None:  # the path of a temporary checkpoint is meaningless
        named = [flags.family, flags.random, flags.task]
        report["model"] |= {"source": " ".join(["random", *filter(None, named)])}
    console = wide_console()
    console.print(_table(report["results"], report["bound"]))
    if (bound := report["bound"]) is not None:
        console.print(
            f"{bound['gpu']}: {bound['weight_bytes_read'] / 1e9:.2f} GB of weights in a step,"
            f" {bound['copy_gb_per_s']:.0f} GB/s copied: {bound['weights_ms']:.2f} ms at least"
        )
    return report


def _tell(result: "ChatResult") -> None:
    """Write the result of a load as soon as it is known."""
    summary = f"{result.concurrency} conversations: {result.tokens_per_s:.0f} tokens/s"
    typer.echo(f"{summary}, {result.step_ms:.3f} ms a step", err=True)


def _tell_spoken(result: "SpokenResult") -> None:
    summary = f"{result.concurrency} conversations: {result.audio_s_per_s:.1f} audio-s/s"
    typer.echo(f"{summary}, {result.outcomes}", err=True)


def _table(results: Sequence[Mapping[str, Any]], bound: Mapping[str, Any] | None) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    bounds = () if bound is None else ("bare products ms", "of the bound")
    table = Table(
        *("conversations", "ms a step", "tokens / s", "first p50 ms", "first p95 ms"),
        *("gap p99 ms", "prompt tokens", "restarts", *bounds),
        box=SIMPLE,
    )
    for row in results:
        products = []
        if bound is not None:
            products_ms = bound["products_ms"][str(row["concurrency"])]
            products = [f"{products_ms:.2f}", f"{row['bound_share']:.0%}"]
        table.add_row(
            str(row["concurrency"]),
            f"{row['step_ms']:.3f}",
            f"{row['tokens_per_s']:.0f}",
            f"{row['first_token_ms']['p50']:.1f}",
            f"{row['first_token_ms']['p95']:.1f}",
            f"{row['token_gap_ms']['p99']:.2f}",
            str(row["num_prompt_tokens"]),
            str(row["num_restarts"]),
            *products,
        )
    return table


def _spoken_table(results: Sequence[Mapping[str, Any]]) -> "Table":
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(
        *("conversations", "audio-s / s", "chars / s", "text ms p50", "p95"),
        *("then audio p50", "p95", "audio p50", "p95"),
        *("gapless", "halts p95", "p99", "answers", "client"),
        box=SIMPLE,
    )
    for row in results:
        playback, halt = row["playback"] or {}, row["halt_ms"] or {}
        times = [row[f"{name}_ms"] or {} for name in _TIMES]
        table.add_row(
            str(row["concurrency"]),
            f"{row['audio_s_per_s']:.1f}",
            f"{row['characters_per_s']:.0f}",
            *(_shown(each, name) for each in times for name in ("p50", "p95")),
            f"{playback['continuity']:.1%}" if playback else "",
            *(_shown(halt, name) for name in ("p95", "p99")),
            ", ".join(f"{count} {outcome}" for outcome, count in row["outcomes"].items()),
            f"{row['client_cpu_share']:.0%}",
        )
    return table


def _shown(figures: Mapping[str, float], name: str) -> str:
    return f"{figures[name]:.1f}" if name in figures else ""
