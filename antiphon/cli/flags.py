"""Commands whose flags are a frozen dataclass: one field, one flag."""

import inspect
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, TypeAlias, TypeVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from antiphon.cli import completion

Flags = TypeVar("Flags")
CheckpointDirectory: TypeAlias = Annotated[
    Path,
    typer.Argument(
        help="A checkpoint's directory, or a GGUF file.",
        show_default=False,
        autocompletion=completion.checkpoints,
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]

Url: TypeAlias = Annotated[
    str | None,
    typer.Option(
        help="Address of a running server, as http://127.0.0.1:8000; default: load the model here.",
        show_default=False,
    ),
]
ApiKey: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Key of that server.", envvar="ANTIPHON_API_KEY", show_default=False),
]

SETTING = "<setting>"
"""As a flag's default: that of the setting that the flag stands for."""


def flag(help: str, default: str | bool = False, *names: str, **more: Any) -> Any:
    """Return a `typer.Option`.

    Args:
        default: the default as help shows it; ``True``: the field's own, ``False``: none,
            `SETTING`: that of the setting.
        names: the option's, if not the field's.
        more: further arguments of `typer.Option`.
    """
    return typer.Option(*names, help=help, show_default=default, **more)


def settings_of(flags: Any) -> dict[str, Any]:
    """Return the flags that stand for settings, by names as ``"server.port"``."""
    given = {setting: getattr(flags, name) for name, setting in _settings(type(flags)).items()}
    return {setting: None if value == [] else value for setting, value in given.items()}


def _settings(flags: type[Any]) -> dict[str, str]:
    """Return the settings of fields: named by the annotation, or else of the class's section."""
    hints = get_type_hints(flags, include_extras=True)
    named = {field.name: hints[field.name].__metadata__[-1] for field in fields(flags)}
    sections = _declared(flags, "section")
    given = {name: f"{section}.{name}" for name, section in sections.items() if name in named}
    return given | {name: setting for name, setting in named.items() if isinstance(setting, str)}


def _declared(flags: type[Any], name: str) -> dict[str, str]:
    """Return what base classes declare under a name, by their fields: of help panels, a title."""
    parts = [vars(part) for part in flags.__mro__ if name in vars(part)]
    return {field: part[name] for part in parts for field in part["__annotations__"]}


def without_switch_types(command: Any, context: Any) -> None:
    """Leave the type out of the help of options without a value, in subcommands too."""
    for option in command.get_params(context):
        if isinstance(option, TyperOption) and option.is_flag:
            option.metavar = ""
    if isinstance(command, TyperGroup):
        for inner in command.commands.values():
            without_switch_types(inner, context)


def add_command(
    app: typer.Typer, name: str, flags: type[Flags], run: Callable[[Flags], None], **more: Any
) -> None:
    """Add ``run`` to ``app``: its help is the docstring of ``run``, its flags are the fields.

    Args:
        flags: a dataclass; each field is ``Annotated`` with a typer argument or option.
        more: further arguments of `typer.Typer.command`.
    """

    class Command(TyperCommand):
        """Makes the flags and runs; looks defaults of settings up for help, as that takes long."""

        def format_help(self, ctx: Any, formatter: Any) -> None:
            from antiphon.config import Settings

            defaults, settings = Settings().model_dump(), _settings(flags)
            panels = _declared(flags, "panel")
            for each in self.params:
                if not isinstance(each, TyperOption):
                    continue
                each.rich_help_panel = panels.get(str(each.name))
                if each.show_default == SETTING:
                    section, _, setting = settings[str(each.name)].partition(".")
                    each.show_default = str(defaults[section][setting])
            super().format_help(ctx, formatter)

        def invoke(self, ctx: Any) -> None:
            run(super().invoke(ctx))

    # The callback of the command is the dataclass: Typer makes parameters of its fields.
    app.command(name, cls=Command, help=inspect.getdoc(run), **more)(flags)
