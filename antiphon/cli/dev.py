"""``antiphon dev``: tools for the development of Antiphon."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli import completion
from antiphon.cli.check_family import CheckFamilyFlags, check_family
from antiphon.cli.family_lines import family_lines
from antiphon.cli.flags import add_command
from antiphon.cli.new_family import new_family
from antiphon.errors import ModelLoadError

if TYPE_CHECKING:
    from antiphon.contracts.family import Family

dev = typer.Typer(no_args_is_help=True, help="Tools for development.")
dev.command("new-family")(new_family)
add_command(dev, "check-family", CheckFamilyFlags, check_family)
dev.command("families")(family_lines)


@dev.command("make-checkpoint")
def make_checkpoint(
    path: Annotated[
        Path, typer.Argument(help="Where to write it.", file_okay=False, show_default=False)
    ],
    size: Annotated[str, typer.Option(help="One of the family's sizes.")] = "tiny",
    task: Annotated[
        str | None,
        typer.Option(
            help="One of the family's: what it is for.",
            show_default="the family's first",
            autocompletion=completion.made_tasks,
        ),
    ] = None,
    vocabulary: Annotated[str, typer.Option(help="'byte', or 'full' for the real one.")] = "byte",
    dtype: Annotated[
        str,
        typer.Option(
            help="'float32' or 'bfloat16'.", autocompletion=completion.among("float32", "bfloat16")
        ),
    ] = "float32",
    family: Annotated[
        str | None,
        typer.Option(
            help="Whose checkpoint.",
            show_default="the one that speaks",
            autocompletion=completion.families,
        ),
    ] = None,
) -> None:
    """Write a checkpoint of random weights in a family's official layout.

    Its output is noise; it loads, runs and is measured like a published one. It has configuration
    and tokenizer only: its weights are drawn when it is loaded.
    """
    maker = _maker(family).checkpoint_maker
    assert maker is not None
    given = {} if task is None else {"task": task}
    maker.resolve()(path, size=size, **given, vocabulary=vocabulary, dtype=dtype)
    typer.echo(f"Wrote {path}")


def _maker(name: str | None) -> "Family":
    from antiphon.families.measured import measured_family
    from antiphon.families.registry import family

    if name is not None:
        found = family(name)
        if found.checkpoint_maker is None:
            raise ModelLoadError(f"'{name}' has no checkpoints to be made.")
        return found
    return measured_family(None)[0]
