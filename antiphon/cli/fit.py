"""``antiphon models fit``: what a GPU or a CPU holds of a checkpoint, and how fast it is there."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli import completion
from antiphon.cli.fit_cpu import family_of, fit_cpu
from antiphon.cli.flags import AsJson, CheckpointDirectory

if TYPE_CHECKING:
    from antiphon.contracts.inspection import Footprint
    from antiphon.placement.cards import Card
    from antiphon.placement.fit import Fit, Speed

_STREAMS = (1, 8, 64)
_NOTE = (
    "An estimate from stated bandwidth and arithmetic and the shares of them that an H200 reaches"
    " with up to 256 streams; nothing else has been measured (docs/performance.md)."
)


def fit(
    path: CheckpointDirectory,
    card: Annotated[
        str | None,
        typer.Option(
            help='A GPU by name, such as "RTX 4090"; cpu: that of this machine.',
            show_default=False,
            autocompletion=completion.cards,
        ),
    ] = None,
    device_memory_gib: Annotated[
        float | None, typer.Option(min=0.1, help="Of another GPU.", show_default=False)
    ] = None,
    bandwidth_gbs: Annotated[
        float | None,
        typer.Option(min=1, help="Of its memory, 10^9 bytes a second.", show_default=False),
    ] = None,
    tflops: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help="Its bfloat16 arithmetic; without, arithmetic is left out.",
            show_default=False,
        ),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Audio that a stream makes.")] = 30.0,
    gpu_memory_utilization: Annotated[
        float | None,
        typer.Option(
            min=0.01,
            max=1,
            help="Share of its memory that the server may use; default: the server's.",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate what a GPU holds of a checkpoint, and how fast it is there; no tensor is read.

    Of a CPU, all types of weights are estimated, and one is recommended. The exit status is 1 if
    not one stream fits.
    """
    if card is not None and card.lower() == "cpu":
        _check_alone(device_memory_gib, bandwidth_gbs, tflops, gpu_memory_utilization)
        fit_cpu(path, seconds, as_json=as_json)
        return
    from antiphon.placement.fit import fit as estimate

    chosen = _card(card, device_memory_gib, bandwidth_gbs, tflops)
    footprint = _footprint(path)
    found = estimate(footprint, chosen, seconds, _STREAMS, gpu_memory_utilization)
    if as_json:
        inputs = {"card": dataclasses.asdict(chosen), "seconds": seconds}
        typer.echo(json.dumps({**inputs, **dataclasses.asdict(found), "note": _NOTE}, indent=2))
    else:
        _print(chosen, seconds, found)
    if not found.num_streams:
        raise typer.Exit(1)


def _footprint(path: Path) -> "Footprint":
    """Return what a checkpoint takes of a GPU."""
    from antiphon.errors import ModelLoadError

    family = family_of(path)
    if family.footprint is None:
        raise ModelLoadError(f"{path}: what '{family.name}' takes of a GPU is not known.")
    found: Footprint = family.footprint.resolve()(path)
    return found


def _check_alone(*given: float | None) -> None:
    """Refuse figures of a card beside its name."""
    from antiphon.errors import SettingsError

    if any(each is not None for each in given):
        raise SettingsError("--card brings memory and bandwidth along: give it alone.")


def _card(
    name: str | None, memory_gib: float | None, bandwidth_gbs: float | None, tflops: float | None
) -> "Card":
    """Return the card that is asked for.

    Raises:
        SettingsError: The card is unknown, or none is named.
    """
    from antiphon.errors import SettingsError
    from antiphon.placement.cards import Card, card_of

    if name is not None:
        _check_alone(memory_gib, bandwidth_gbs, tflops)
        return card_of(name)
    if memory_gib is None or bandwidth_gbs is None:
        raise SettingsError(
            'Give --card "NAME" or --card cpu, or --device-memory-gib and --bandwidth-gbs.'
        )
    return Card("another GPU", memory_gib, bandwidth_gbs, tflops)


def _print(card: "Card", seconds: float, found: "Fit") -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    grid = Table.grid("", "", padding=(0, 2))
    rows = {
        "Card": f"{card.name}: {card.memory_gib:g} GiB, {card.bandwidth_gbs:g} GB/s",
        "Weights": f"{found.weight_gib:.1f} GiB",
        "CUDA, graphs, kept free": f"{found.runtime_gib:.1f} GiB",
        "Left for streams": f"{max(0.0, found.cache_gib):.1f} GiB",
        f"A stream of {seconds:g} s": f"{found.stream_gib * 1024:.0f} MiB",
        "Streams that fit": f"{found.num_streams:,}",
        "Streams without gaps": f"{found.num_gapless:,}",
    }
    for name, value in rows.items():
        grid.add_row(f"[bold]{name}[/]", value)
    table = Table("Streams", "ms a frame", "of real time", "measured, ms", box=None, pad_edge=False)
    for speed in found.speeds:
        table.add_row(*_row(speed))
    console.print(grid, "", table, "", sep="\n")
    console.print(_NOTE)


def _row(speed: "Speed") -> tuple[str, str, str, str]:
    measured = "-" if speed.measured_ms is None else f"{speed.measured_ms:.2f}"
    return str(speed.num_streams), f"{speed.frame_ms:.2f}", f"{speed.load:.0%}", measured
