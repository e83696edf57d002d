"""``antiphon bench chat``: how fast a model writes, and what bounds it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli.flags import flag
from antiphon.errors import SettingsError
from antiphon_bench.commands.flags import ApiKey, Device, Dtype, JsonFile, RandomFamily
from antiphon_bench.commands.model import model_to_measure, random_source
from antiphon_bench.commands.outputs import refuse_unwritable, write
from antiphon_bench.commands.serve import tell_errors
from antiphon_bench.commands.tables import Column, show_results, spread, wide_console
from antiphon_bench.commands.values import counts_of, fields_of

if TYPE_CHECKING:
    from antiphon_bench.chat import ChatResult
    from antiphon_bench.spoken_chat import SpokenResult


_COLUMNS: Sequence[Column] = (
    ("conversations", "concurrency", ""),
    ("ms a step", "step_ms", ".3f"),
    ("tokens / s", "tokens_per_s", ".0f"),
    ("first p50 ms", "first_token_ms.p50", ".1f"),
    ("first p95 ms", "first_token_ms.p95", ".1f"),
    ("gap p99 ms", "token_gap_ms.p99", ".2f"),
    ("prompt tokens", "num_prompt_tokens", ""),
    ("restarts", "num_restarts", ""),
)
_BOUND_COLUMNS: Sequence[Column] = (
    ("bare products ms", "products_ms", ".2f"),
    ("of the bound", "bound_share", ".0%"),
)
_SPOKEN_COLUMNS: Sequence[Column] = (
    ("conversations", "concurrency", ""),
    ("audio-s / s", "audio_s_per_s", ".1f"),
    ("chars / s", "characters_per_s", ".0f"),
    *spread("text ms", "first_text_ms", ".1f", "p50", "p95"),
    *spread("then audio", "audio_after_text_ms", ".1f", "p50", "p95"),
    *spread("audio", "first_audio_ms", ".1f", "p50", "p95"),
    ("gapless", "playback.continuity", ".1%"),
    *spread("halts", "halt_ms", ".1f", "p95", "p99"),
    ("answers", "answers", ""),
    ("client", "client_cpu_share", ".0%"),
)


@dataclass(frozen=True, slots=True)
class ChatBenchFlags:
    """The flags of ``antiphon bench chat``."""

    model: Annotated[str | None, flag("A checkpoint's directory, or a built-in model.")] = None
    random: Annotated[
        str | None,
        flag("Size of a checkpoint of random weights, made for this: 7b, 1b, 0.6b, 135m or tiny."),
    ] = None
    family: RandomFamily = None
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
        bool, flag("For servers of random weights: allow only speakable tokens.", True)
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

    Without --url all conversations begin at once; tokens are sampled with the checkpoint's
    defaults, but none that would end an answer. On a GPU it also measures what bounds them:
    copying memory, and a token's bare matrix products.
    """
    refuse_unwritable(flags.json_file)
    report = _without_server(flags) if flags.url is None else _with_server(flags, flags.url)
    write(flags.json_file, json.dumps(report, indent=2) + "\n")


def _with_server(flags: ChatBenchFlags, url: str) -> dict[str, Any]:
    from antiphon_bench.spoken_chat import SpokenLoad, measure_spoken, spoken_target

    of_models = ("random", "family", "task", "max_slots", "device", "dtype")
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
    show_results(_SPOKEN_COLUMNS, map(_spoken_row, report["results"]))
    tell_errors(report["results"])
    return report


def _without_server(flags: ChatBenchFlags) -> dict[str, Any]:
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
    made = model_to_measure(flags.model, flags.random, flags.task, flags.family, "chat")
    with made as source:
        values = {
            "model.source": source,
            "model.device": flags.device,
            "model.dtype": flags.dtype,
            "model.max_slots": flags.max_slots or max(counts),
        }
        report = asyncio.run(run_chat(load_settings(values).model, loads, _tell))
    if flags.random is not None:
        report["model"] |= {"source": random_source(flags.family, flags.random, flags.task)}
    if (bound := report["bound"]) is None:
        show_results(_COLUMNS, report["results"])
    else:
        products_ms = bound["products_ms"]
        rows = [
            {**row, "products_ms": products_ms[str(row["concurrency"])]}
            for row in report["results"]
        ]
        show_results([*_COLUMNS, *_BOUND_COLUMNS], rows)
        wide_console().print(
            f"{bound['gpu']}: {bound['weight_bytes_read'] / 1e9:.2f} GB of weights in a step,"
            f" {bound['copy_gb_per_s']:.0f} GB/s copied: {bound['weights_ms']:.2f} ms at least"
        )
    return report


def _spoken_row(result: Mapping[str, Any]) -> dict[str, Any]:
    counts = (f"{count} {outcome}" for outcome, count in result["outcomes"].items())
    return {**result, "answers": ", ".join(counts)}


def _tell(result: "ChatResult") -> None:
    """Write the result of a load as soon as it is known."""
    summary = f"{result.concurrency} conversations: {result.tokens_per_s:.0f} tokens/s"
    typer.echo(f"{summary}, {result.step_ms:.3f} ms a step", err=True)


def _tell_spoken(result: "SpokenResult") -> None:
    summary = f"{result.concurrency} conversations: {result.audio_s_per_s:.1f} audio-s/s"
    typer.echo(f"{summary}, {result.outcomes}", err=True)
