"""``antiphon models``: the families that are built in."""

import json
from typing import Annotated

import typer


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the kinds of model that can be served."""
    from antiphon.models.registry import families

    rows = [
        {
            "name": family.name,
            "title": family.title,
            "needs_checkpoint": family.needs_checkpoint,
            "architectures": list(family.architectures),
        }
        for family in families()
    ]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return

    from rich.console import Console
    from rich.table import Table

    table = Table("Name", "What it is", "Weights", box=None, pad_edge=False)
    for row in rows:
        weights = "a checkpoint's directory" if row["needs_checkpoint"] else "included"
        table.add_row(str(row["name"]), str(row["title"]), weights)
    Console().print(table)
