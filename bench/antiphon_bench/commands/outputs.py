"""Files that a long command writes at its end: refused before it begins if they cannot be."""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import typer

from antiphon.errors import SettingsError

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells have it."""

Flags = TypeVar("Flags")


def refuse_unwritable(*files: Path | None) -> None:
    """Raise SettingsError if one of these files could not be written; ``None`` is none."""
    for file in files:
        if file is None:
            continue
        was_there = file.exists()
        with _explained(file), file.open("ab"):
            pass
        if not was_there:
            file.unlink()


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it; raises SettingsError if that cannot be."""
    with _explained(folder):
        folder.mkdir(parents=True, exist_ok=True)


def write(file: Path | None, text: str) -> None:
    """Write a file; raises SettingsError if that cannot be. ``None`` is none."""
    if file is not None:
        with _explained(file):
            file.write_text(text, encoding="utf-8")


def interruptible(run: Callable[[Flags], None]) -> Callable[[Flags], None]:
    """Return a command that reports, after Ctrl-C, that it has written nothing."""

    @functools.wraps(run)
    def command(flags: Flags) -> None:
        try:
            run(flags)
        except KeyboardInterrupt:
            typer.echo("antiphon: Interrupted; nothing was written.", err=True)
            raise typer.Exit(INTERRUPTED) from None

    return command


def exit_if_interrupted(is_interrupted: bool) -> None:
    """Report that the output is incomplete, and exit, if a measurement was interrupted."""
    if is_interrupted:
        typer.echo("antiphon: Interrupted; this is what had been measured.", err=True)
        raise typer.Exit(INTERRUPTED)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written: {error.strerror}") from error
