"""Registers commands whose flags are a frozen dataclass: one field, one flag."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import typer

Flags = TypeVar("Flags")


def add_command(
    app: typer.Typer, name: str, flags: type[Flags], run: Callable[[Flags], None]
) -> None:
    """Add ``run`` to ``app``: its help is the docstring of ``run``, its flags are the fields.

    Args:
        app: what the command is added to.
        name: of the command.
        flags: a dataclass; each field is ``Annotated`` with a typer argument or option.
        run: called with the flags.
    """

    def command(**values: Any) -> None:
        run(flags(**values))

    # Typer reads a command's flags from these two.
    vars(command)["__signature__"] = inspect.signature(flags)
    command.__annotations__ = get_type_hints(flags, include_extras=True)
    app.command(name, help=inspect.getdoc(run))(command)
