"""``antiphon models fit``: what a GPU or a CPU holds of a checkpoint, and how fast it is there."""

import dataclasses
import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.cli import completion
from antiphon.cli.flags import AsJson, CheckpointDirectory
from antiphon.cli.tables import facts_grid
from antiphon.errors import ModelLoadError, SettingsError

if TYPE_CHECKING:
    from antiphon.contracts.family import Family
    from antiphon.placement.cards import Card
    from antiphon.placement.host_cpu import HostCpu

_STREAMS = (1, 8, 64)
_NOTE = (
    "An estimate from stated bandwidth and arithmetic and the shares of them that an H200 reaches"
    " with up to 256 streams; nothing else has been measured (docs/performance.md)."
)
_CPU_NOTE = (
    "An estimate from the speed of this machine's memory and arithmetic, measured just now beside"
    " what else it does, and the shares of them that Qwen3-TTS 0.6B reaches; nothing else has been"
    " measured (docs/without-a-gpu.md)."
)
_FULL = (
    "Not one stream fits. Use a smaller checkpoint, another card, or main memory:"
    " models fit DIRECTORY --card cpu estimates int8 weights on a CPU."
)
_SLOW = (
    "That is slower than real time: for files, not for conversations. Small voices are faster than"
    " real time on any laptop (docs/without-a-gpu.md)."
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

    Of a CPU, all types of weights are estimated, and one is recommended; of a GPU, int8 weights if
    others do not fit. The exit status is 1 if not one stream fits.
    """
    family = family_of(directory_of(path))
    figures = device_memory_gib, bandwidth_gbs, tflops, gpu_memory_utilization
    if card is not None and card.lower() == "cpu":
        _check_alone(*figures)
        _fit_cpu(family, path, seconds, as_json=as_json)
    else:
        chosen = _card(card, device_memory_gib, bandwidth_gbs, tflops)
        _fit_gpu(family, path, chosen, seconds, gpu_memory_utilization, as_json=as_json)


def directory_of(path: Path) -> Path:
    """Return the directory of a checkpoint, made from it if it is a GGUF file."""
    from antiphon.families.registry import checkpoint_directory

    found = checkpoint_directory(path)
    if not found.is_dir():
        raise ModelLoadError(f"There is no directory '{path}'.")
    return found


def family_of(path: Path) -> "Family":
    from antiphon.families.registry import checkpoint_family

    return checkpoint_family(path)


def _check_alone(*given: float | None) -> None:
    """Refuse figures of a card beside its name."""
    if any(each is not None for each in given):
        raise SettingsError("--card brings memory and bandwidth along: give it alone.")


def _card(
    name: str | None, memory_gib: float | None, bandwidth_gbs: float | None, tflops: float | None
) -> "Card":
    from antiphon.placement.cards import Card, card_of

    if name is not None:
        _check_alone(memory_gib, bandwidth_gbs, tflops)
        return card_of(name)
    if memory_gib is None or bandwidth_gbs is None:
        raise SettingsError(
            'Give --card "NAME" or --card cpu, or --device-memory-gib and --bandwidth-gbs.'
        )
    return Card("another GPU", memory_gib, bandwidth_gbs, tflops)


def _fit_gpu(
    family: "Family",
    path: Path,
    card: "Card",
    seconds: float,
    utilization: float | None,
    *,
    as_json: bool,
) -> None:
    from rich.markup import escape
    from rich.table import Table

    from antiphon.placement.fit import fit as estimate

    if family.footprint is None:
        raise ModelLoadError(f"{path}: what '{family.name}' takes of a GPU is not known.")
    directory, quantize = directory_of(path), ""
    footprint = family.footprint.resolve()(directory)
    found = estimate(footprint, card, seconds, _STREAMS, utilization)
    dtype = "bfloat16" if card.has_bfloat16 else "float32"
    of_frame = family.measuring and family.measuring.frame_products
    if not found.num_streams and family.quantizes and of_frame:
        products = of_frame.resolve()(directory)
        found = estimate(footprint, card, seconds, _STREAMS, utilization, products)
        dtype, quantize = f"int8 and {dtype}", " --quantize int8"
    facts = {
        "Card": f"{card.name}: {card.memory_gib:g} GiB, {card.bandwidth_gbs:g} GB/s",
        "Weights": f"{found.weight_gib:.1f} GiB in {dtype}",
        "CUDA, graphs, kept free": f"{found.runtime_gib:.1f} GiB",
        "Left for streams": f"{max(0.0, found.cache_gib):.1f} GiB",
        f"A stream of {seconds:g} s": f"{found.stream_gib * 1024:.0f} MiB",
        "Streams that fit": f"{found.num_streams:,}",
        "Streams without gaps": f"{found.num_gapless:,}",
    }
    table = Table("Streams", "ms a frame", "of real time", "measured, ms", box=None, pad_edge=False)
    for speed in found.speeds:
        measured = "-" if speed.measured_ms is None else f"{speed.measured_ms:.2f}"
        times = f"{speed.frame_ms:.2f}", f"{speed.load:.0%}", measured
        table.add_row(str(speed.num_streams), *times)
    share = "" if utilization is None else f"ANTIPHON_MODEL_GPU_MEMORY_UTILIZATION={utilization:g} "
    serve = f"{share}antiphon serve {shlex.quote(str(path))}{quantize}"
    command = serve if found.num_streams else None
    advice = _FULL if command is None else f"Recommended: {escape(command)}"
    record = {"card": card, "seconds": seconds, **dataclasses.asdict(found)}
    parts = facts_grid(facts), "", table, "", advice, "", _NOTE
    record |= {"weights": dtype, "recommended": command, "note": _NOTE}
    _show(record, parts, as_json, fits=command is not None)


def _fit_cpu(family: "Family", path: Path, seconds: float, *, as_json: bool) -> None:
    """Print estimates for this CPU by type of weights, and the command that is recommended."""
    from rich.markup import escape
    from rich.table import Table

    from antiphon.placement.cpu_fit import cpu_fits, recommended
    from antiphon.placement.host_cpu import HostCpu

    cpu = HostCpu.of_host()
    fits = cpu_fits(family, directory_of(path), cpu, seconds)
    best = recommended(fits, cpu.memory_gib)
    command = None
    advice = ["None fits into the main memory, of which a fifth is left to others."]
    if best is not None:
        quantize = "" if best.weights == "float32" else f" --quantize {best.weights}"
        command = f"antiphon serve {shlex.quote(str(path))} --device cpu{quantize}"
        advice = [f"Recommended: {escape(command)}", *([_SLOW] if best.load > 1 else [])]
    table = Table("Weights", "Memory", "ms a frame", "its audio, ms", "of real time", box=None)
    for each in fits:
        times = f"{each.model_ms:.0f}", f"{each.decoder_ms:.0f}", f"{each.load:.0%}"
        table.add_row(each.weights, f"{each.memory_gib:.1f} GiB", *times)
    record = {"cpu": cpu, "seconds": seconds, "weights": fits, "recommended": command}
    parts = described(cpu), "", table, "", *advice, "", _CPU_NOTE
    _show({**record, "note": _CPU_NOTE}, parts, as_json, fits=best is not None)


def _show(record: dict[str, Any], parts: tuple[Any, ...], as_json: bool, *, fits: bool) -> None:
    """Print an estimate; the exit status is 1 if nothing ``fits``."""
    from rich.console import Console

    if as_json:
        typer.echo(json.dumps(record, indent=2, default=dataclasses.asdict))
    else:
        Console(highlight=False, soft_wrap=True).print(*parts, sep="\n")
    if not fits:
        raise typer.Exit(1)


def described(cpu: "HostCpu") -> str:
    figures = {"GiB": cpu.memory_gib, "GB/s": cpu.bandwidth_gbs, "GFLOP/s a core": cpu.gflops}
    known = (f"{number:.0f} {unit}" for unit, number in figures.items() if number is not None)
    return f"{cpu.name}: {', '.join(filter(None, (f'{cpu.cores} cores', cpu.vectors, *known)))}"
