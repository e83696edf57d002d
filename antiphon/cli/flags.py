"""Commands whose flags are a frozen dataclass: one field, one flag."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, get_type_hints

import typer

Flags = TypeVar("Flags")


def flag(help: str, default: str | bool = False, *names: str, **more: Any) -> Any:
    """Return a `typer.Option`.

    Args:
        help: what it means.
        default: the default as help shows it; ``True``: the field's own, ``False``: none.
        names: the option's, if not the field's.
        more: further arguments of `typer.Option`.
    """
    return typer.Option(*names, help=help, show_default=default, **more)


def settings_of(flags: Any) -> dict[str, Any]:
    """Return the flags whose annotation names a setting, as ``"server.port"``, by that name."""
    hints = get_type_hints(type(flags), include_extras=True)
    given = {hint.__metadata__[-1]: getattr(flags, name) for name, hint in hints.items()}
    return {
        setting: None if value == [] else value
        for setting, value in given.items()
        if isinstance(setting, str)
    }


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

    # Typer, like inspect, takes a function's parameters from here.
    command.__signature__ = inspect.signature(flags)  # type: ignore[attr-defined]
    command.__annotations__ = get_type_hints(flags, include_extras=True)
    app.command(name, help=inspect.getdoc(run))(command)
