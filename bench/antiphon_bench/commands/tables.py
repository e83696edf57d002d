"""Tables of results, for people."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console

Column: TypeAlias = tuple[str, str, str]
"""Heading, the member of a row that it shows, as ``"first_audio_ms.p50"``, and its format."""
_WIDTH = 150


def wide_console() -> "Console":
    """Return a console that a table of many columns fits on, if need be beyond its edge."""
    from rich.console import Console

    console = Console()
    return console if console.width >= _WIDTH else Console(width=_WIDTH)


def show_results(columns: Sequence[Column], results: Iterable[Mapping[str, Any]]) -> None:
    """Print a row for each result; cells of figures that it lacks are empty."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(*(heading for heading, *_ in columns), box=SIMPLE)
    for row in results:
        table.add_row(*(_cell(row, member, form) for _, member, form in columns))
    wide_console().print(table)


def spread(heading: str, member: str, form: str, *names: str) -> list[Column]:
    """Return a column for each of some percentiles; only the first has the whole heading."""
    headings = [f"{heading} {names[0]}", *names[1:]]
    return [(each, f"{member}.{name}", form) for each, name in zip(headings, names, strict=True)]


def _cell(row: Any, member: str, form: str) -> str:
    for name in member.split("."):
        row = None if row is None else row.get(name)
    return "" if row is None else format(row, form)
