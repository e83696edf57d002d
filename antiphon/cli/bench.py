"""``antiphon bench engine``: how fast a model's stages are on this machine."""

import json
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(help="Measure speed.", no_args_is_help=True)


@app.callback()
def _bench() -> None:
    """Measure speed."""


@app.command()
def engine(
    model: Annotated[str, typer.Argument(help="A built-in model or a checkpoint's directory.")],
    concurrency: Annotated[
        str, typer.Option(help="Streams at the same time, comma-separated.")
    ] = "1,8,32",
    frames: Annotated[int, typer.Option(help="Frames that each stream makes.")] = 200,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:N or auto.")] = "auto",
    dtype: Annotated[str, typer.Option(help="auto, bfloat16 or float32.")] = "auto",
    json_file: Annotated[
        Path | None, typer.Option("--json", help="Write everything here.", show_default=False)
    ] = None,
) -> None:
    """Measure the stages of a model without HTTP, all streams beginning at once."""
    import asyncio

    from rich.console import Console
    from rich.table import Table

    from antiphon.bench.engine import Load, run
    from antiphon.config import load_settings

    loads = [Load(int(each), frames) for each in concurrency.split(",")]
    flags = {
        "model.source": model,
        "model.device": device,
        "model.dtype": dtype,
        "model.max_slots": max(load.concurrency for load in loads),
    }
    report = asyncio.run(run(load_settings(flags).model, loads))
    if json_file is not None:
        json_file.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    table = Table("streams", "ms a frame", "RTF", "audio-s / s", "first p50 ms", "first p95 ms")
    for row in report["results"]:
        table.add_row(
            str(row["concurrency"]),
            f"{row['frame_ms']:.2f}",
            f"{row['real_time_factor']:.3f}",
            f"{row['audio_s_per_s']:.1f}",
            f"{row['first_audio_ms_p50']:.1f}",
            f"{row['first_audio_ms_p95']:.1f}",
        )
    Console().print(table)
