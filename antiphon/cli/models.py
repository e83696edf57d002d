"""``antiphon models``: the families that are built in, and what a checkpoint is and takes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from antiphon.cli.fit import directory_of, family_of, fit
from antiphon.cli.flags import AsJson, CheckpointDirectory
from antiphon.cli.pull import pull
from antiphon.cli.tables import facts_grid, show_table
from antiphon.errors import ModelLoadError

if TYPE_CHECKING:
    from antiphon.contracts.family import Family
    from antiphon.contracts.inspection import Inspection, Table

models = typer.Typer(invoke_without_command=True)
models.command()(fit)
models.command()(pull)


@models.callback()
def _list(context: typer.Context, as_json: AsJson = False) -> None:
    """List the kinds of model that can be served; download or inspect a checkpoint."""
    if context.invoked_subcommand is not None:
        return
    from antiphon.families.installed import installed_models
    from antiphon.families.registry import families

    found = families()
    records = [
        {
            "name": family.name,
            "title": family.title,
            "needs_checkpoint": family.needs_checkpoint,
            "architectures": list(family.architectures),
        }
        for family in found
    ]
    built_in = [[each.name, each.title, "built in"] for each in found if not each.needs_checkpoint]
    installed = [
        [each.name, f"a model of the package {each.dist.name}" if each.dist else "", "installed"]
        for each in installed_models()
    ]
    others = [[each.name, each.title, "a checkpoint"] for each in found if each.needs_checkpoint]
    rows = [*built_in, *installed, *others]
    show_table(records, ("Name", "What it is", "Weights"), rows, as_json)


@models.command()
def inspect(
    path: CheckpointDirectory,
    as_json: AsJson = False,
) -> None:
    """Show what a checkpoint is and whether it can be served; no tensor is read.

    The exit status is 1 if it cannot be served.
    """
    from antiphon.contracts.inspection import Inspection

    directory = directory_of(path)
    family = family_of(directory)
    if family.inspector is None:
        raise ModelLoadError(f"{path}: checkpoints of '{family.name}' cannot be inspected.")
    found: Inspection = family.inspector.resolve()(directory)
    problems = [*found.problems]
    if family.extra is not None and family.extra.missing:
        problems.append(family.extra.missing)
    if as_json:
        typer.echo(json.dumps(_as_json(family, found, problems), indent=2, ensure_ascii=False))
    else:
        _print(path, family, found, problems)
    if problems:
        raise typer.Exit(1)


def _as_json(family: "Family", found: "Inspection", problems: list[str]) -> dict[str, object]:
    return {
        "family": family.name,
        **{_key(name): value for name, value in found.facts.items()},
        **{_key(table.title): _records(table) for table in found.tables},
        "problems": problems,
    }


def _records(table: "Table") -> list[dict[str, str | int]]:
    keys = [_key(column) for column in table.columns]
    return [dict(zip(keys, row, strict=True)) for row in table.rows]


def _key(name: str) -> str:
    return name.lower().replace(" ", "_")


def _print(path: Path, family: "Family", found: "Inspection", problems: list[str]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table as RichTable

    kind = "File" if path.is_file() else "Directory"
    facts = {kind: str(path.resolve()), "Family": f"{family.name}: {family.title}"}
    shown = facts | {name: _shown(value) for name, value in found.facts.items()}
    shown["Can be served"] = "no" if problems else "yes"
    console = Console(highlight=False)
    grid = facts_grid(shown)
    for problem in problems:
        grid.add_row("", escape(problem), style="red")
    console.print(grid)
    for table in found.tables:
        drawn = RichTable(box=None, pad_edge=False)
        for index, column in enumerate(table.columns):
            is_number = any(isinstance(row[index], int) for row in table.rows)
            drawn.add_column(column, justify="right" if is_number else "left")
        for row in table.rows:
            drawn.add_row(*(escape(_shown(cell)) for cell in row))
        console.print("", drawn)


def _shown(value: str | int | tuple[str, ...]) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return value if isinstance(value, str) else ", ".join(value) or "none"
