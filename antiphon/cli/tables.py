"""Lists that commands print: a table for people, or JSON."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table


def facts_grid(facts: Mapping[str, str]) -> "Table":
    """Return a grid of names and values."""
    from rich.markup import escape
    from rich.table import Table

    grid = Table.grid("", "", padding=(0, 2))
    for name, value in facts.items():
        grid.add_row(f"[bold]{name}[/]", escape(value))
    return grid


def show_table(
    records: list[dict[str, Any]], columns: tuple[str, ...], rows: list[list[Any]], as_json: bool
) -> None:
    """Print rows as a table, or the records as JSON; ``None`` is shown as a dash."""
    if as_json:
        typer.echo(json.dumps(records, indent=2))
        return

    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False)
    for row in rows:
        table.add_row(*("-" if cell is None else escape(str(cell)) for cell in row))
    Console().print(table)
