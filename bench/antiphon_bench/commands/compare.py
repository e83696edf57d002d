"""``antiphon bench compare``: what changed between two reports of a suite, beyond noise."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from antiphon.cli.flags import flag

if TYPE_CHECKING:
    from antiphon_bench.compare import Change


_NOT_COMPARED = 2


@dataclass(frozen=True, slots=True)
class CompareFlags:
    """The flags of ``antiphon bench compare``."""

    before: Annotated[Path, typer.Argument(help="report.json of a suite.", show_default=False)]
    after: Annotated[Path, typer.Argument(help="Another.", show_default=False)]
    confidence: Annotated[float, flag("Of the intervals.", True, min=0.5, max=0.9999)] = 0.99
    threshold: Annotated[
        float, flag("Changes of less than this share are not reported.", True, min=0)
    ] = 0.05
    all: Annotated[bool, flag("Show what has not changed, too.", True, "--all")] = False


def bench_compare(flags: CompareFlags) -> None:
    """Compare two reports; exit with 1 if a figure has become worse than noise explains.

    2: the reports cannot be compared, or have too few requests for any figure.
    """
    from antiphon.errors import SettingsError
    from antiphon_bench.commands.tables import wide_console
    from antiphon_bench.compare import compare
    from antiphon_bench.report_file import differences, read_report

    try:
        before, after = read_report(flags.before), read_report(flags.after)
        changes = compare(before, after, confidence=flags.confidence, threshold=flags.threshold)
    except SettingsError as error:
        typer.echo(f"antiphon: {error.message}", err=True)
        raise typer.Exit(_NOT_COMPARED) from error
    console = wide_console()
    for each in differences(before, after):
        console.print(each, markup=False, highlight=False)
    shown = [each for each in changes if flags.all or each.verdict in ("better", "worse")]
    if shown:
        _show(shown)
    counts = {
        verdict: sum(each.verdict == verdict for each in changes)
        for verdict in ("worse", "better", "same", "unknown")
    }
    console.print(
        f"{len(changes)} figures: {counts['worse']} worse, {counts['better']} better,"
        f" {counts['same']} as before, {counts['unknown']} of too few requests"
    )
    if counts["worse"]:
        raise typer.Exit(1)
    if counts["unknown"] == len(changes):
        typer.echo("antiphon: There is no figure of enough requests in both reports.", err=True)
        raise typer.Exit(_NOT_COMPARED)


def _show(changes: "Sequence[Change]") -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from antiphon_bench.commands.tables import wide_console

    table = Table("cell", "figure", "before", "after", "change", "interval", "", box=SIMPLE)
    for each in changes:
        change, between = "", ""
        if each.is_ratio and each.before:
            change = f"{each.after / each.before - 1:+.1%}"
        elif not each.is_ratio:
            change = f"{each.after - each.before:+.3g}"
        if each.between is not None:
            low, high = each.between.low, each.between.high
            between = (
                f"{low - 1:+.1%} to {high - 1:+.1%}"
                if each.is_ratio
                else f"{low:+.3g} to {high:+.3g}"
            )
        values = (f"{value:.4g}" for value in (each.before, each.after))
        table.add_row(each.cell, each.figure, *values, change, between, each.verdict)
    wide_console().print(table)
