"""``antiphon dev``: tools for those who work on Antiphon itself."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from antiphon.errors import ModelLoadError

dev = typer.Typer(help="Tools for development.", no_args_is_help=True)


@dev.callback()
def _dev() -> None:
    """Tools for development."""


@dev.command("make-checkpoint")
def make_checkpoint(
    family: Annotated[str, typer.Argument(help="A family that needs a checkpoint.")],
    directory: Annotated[Path, typer.Argument(help="Where to write it.", file_okay=False)],
    size: Annotated[str, typer.Option(help="One of the family's sizes.")] = "tiny",
    task: Annotated[str, typer.Option(help="What it is for, as in its configuration.")] = "base",
    vocabulary: Annotated[str, typer.Option(help="'byte', or 'full' for the real one.")] = "byte",
    seed: Annotated[int, typer.Option(help="Of all weights.", min=0)] = 0,
    dtype: Annotated[str, typer.Option(help="'float32' or 'bfloat16'.")] = "float32",
    shards: Annotated[int, typer.Option(help="Files to spread the weights over.", min=1)] = 1,
) -> None:
    """Write a checkpoint of random weights in a family's official layout.

    It says nothing intelligible; it loads, runs and is measured like a published one.
    """
    from antiphon.models.registry import FAMILIES
    from antiphon.models.registry import family as family_of
    from antiphon.models.spec import Ref

    package = FAMILIES[family_of(family).name].partition(":")[0]
    if find_spec(f"{package}.random_checkpoint") is None:
        raise ModelLoadError(f"'{family}' has no checkpoints to be made.")
    make = Ref(f"{package}.random_checkpoint:make_checkpoint").resolve()
    make(
        directory,
        size=size,
        task=task,
        vocabulary=vocabulary,
        seed=seed,
        dtype=dtype,
        shards=shards,
    )
    typer.echo(f"Wrote {directory}")
