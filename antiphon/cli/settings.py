"""``antiphon config``: every setting, its value now, and the variable that sets it, as TOML."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antiphon.errors import redacted

if TYPE_CHECKING:
    from antiphon.config import Settings
    from antiphon.config.base import SettingsSection


def config(
    file: Annotated[
        Path | None,
        typer.Option("--config", help="A TOML file of settings.", show_default=False),
    ] = None,
) -> None:
    """Print the settings in force, as TOML; keys and the secrets of URLs are not shown."""
    from antiphon.config.sources import load_settings

    typer.echo("\n".join(as_toml(load_settings(file=file))))


def as_toml(settings: "Settings") -> Iterator[str]:
    """Yield the lines of a settings file that gives these settings, except for secrets."""
    from antiphon.config import Settings

    yield "# Later ones win: defaults, a TOML file, the environment, flags."
    for section in Settings.model_fields:
        yield ""
        yield f"[{section}]"
        yield from _section_lines(section, getattr(settings, section))


def _section_lines(section_name: str, section: "SettingsSection") -> Iterator[str]:
    from antiphon.config.sources import ENVIRONMENT_PREFIX

    for name, value in section.model_dump(mode="json").items():
        description = type(section).model_fields[name].description
        variable = f"{ENVIRONMENT_PREFIX}{section_name}_{name}".upper()
        yield f"# {variable}" + (f": {description}" if description else "")
        if name == "api_keys" and value:
            yield f"# {name} = [{len(value)} not shown]"
        elif name == "url_signing_key" and value:
            yield f"# {name} = not shown"
        elif value is None:
            yield f"# {name} ="
        else:
            yield f"{name} = {_toml(value)}"


def _toml(value: Any) -> str:
    """Spell a value; TOML takes JSON's strings, numbers, booleans and arrays as they are."""
    if isinstance(value, Mapping):
        pairs = (
            f"{_toml_key(key)} = {_toml(each)}" for key, each in value.items() if each is not None
        )
        return f"{{ {', '.join(pairs)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_toml(each) for each in value)}]"
    shown = redacted(value) if isinstance(value, str) else value
    return json.dumps(shown, ensure_ascii=False)


def _toml_key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key, ensure_ascii=False)
