"""``antiphon voices``: what a model can speak with."""

import json
from dataclasses import asdict
from typing import Annotated

import typer


def voices(
    model: Annotated[
        str | None,
        typer.Option(
            help="A built-in model, a checkpoint's directory, or its ORG/NAME on the hub."
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List a model's voices; the first one is the default."""
    from antiphon.config import load_settings
    from antiphon.models.base import Prompter
    from antiphon.models.registry import resolve
    from antiphon.models.spec import LoadContext

    family, path = resolve(load_settings({"model.source": model}).model.source)
    prompter: Prompter = family.prompter.resolve()(LoadContext(path))
    found = prompter.capabilities.voices
    if as_json:
        typer.echo(json.dumps([asdict(voice) for voice in found], indent=2))
        return

    from rich.console import Console
    from rich.table import Table

    table = Table("Voice", "Name", "Language", "Gender", "Description", box=None, pad_edge=False)
    for voice in found:
        table.add_row(
            voice.id,
            voice.name,
            voice.language or "-",
            voice.gender or "-",
            voice.description or "",
        )
    Console().print(table)
