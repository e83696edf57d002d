"""Reader of flags, environment and TOML; nothing else reads settings.

Later sources win: defaults, TOML file, environment (``ANTIPHON_<SECTION>_<NAME>``), flags.
An unknown key in any of them is an error that suggests the nearest known one.
"""

import json
import os
import secrets
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeAlias

from pydantic import ValidationError

from antiphon.config import Settings
from antiphon.errors import SettingsError

ENVIRONMENT_PREFIX = "ANTIPHON_"
CLUSTER_TOKEN = "ANTIPHON_CLUSTER_TOKEN"
"""Variable with the token that processes of one server authenticate each other with."""

API_KEY = "ANTIPHON_API_KEY"
"""Variable with the key for requests to a server; a starting server ignores it."""
_NO_SETTINGS = ("ANTIPHON_CONFIG", API_KEY, CLUSTER_TOKEN)

LIBRARY_DEFAULTS = {"CACHE_DIT_LOG_LEVEL": "WARNING", "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128"}
"""oneDNN, which runs PyTorch's convolutions on a CPU, caches the last 1,024 compiled shapes. Every
length of a recording is a new shape in each layer, which took 60 to 150 MiB. cache_dit logs
several lines per network."""

Entry: TypeAlias = tuple[str, str, Any]
"""Section, name and value of a setting."""


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Merge all sources into one tree; raises SettingsError.

    Args:
        flags: values by key, ``{"server.port": 8000}``; ``None`` values are ignored.
        file: TOML file with one table per section; ``None``: ``ANTIPHON_CONFIG``, if set.
        environment: environment variables; ``None``: those of the process.
    """
    environment = os.environ if environment is None else environment
    file = file or (Path(found) if (found := environment.get("ANTIPHON_CONFIG")) else None)
    merged: dict[str, dict[str, Any]] = {}
    for section, name, value in [
        *(_from_file(file) if file else ()),
        *_from_environment(environment),
        *_from_flags(flags or {}),
    ]:
        merged.setdefault(section, {})[name] = value
    try:
        return Settings.model_validate(merged)
    except ValidationError as error:
        raise SettingsError("; ".join(_explain(dict(each)) for each in error.errors())) from error


def set_library_defaults(more: Mapping[str, str] | None = None) -> None:
    """Limit caches and logs of libraries; must be called before they are imported.

    Existing environment variables take precedence.
    """
    for name, value in {**LIBRARY_DEFAULTS, **(more or {})}.items():
        os.environ.setdefault(name, value)


def cluster_token() -> str:
    """Return the token of the server's processes; create it if the environment has none."""
    if not os.environ.get(CLUSTER_TOKEN):
        use_cluster_token(secrets.token_hex(32))
    return os.environ[CLUSTER_TOKEN]


def use_cluster_token(token: str) -> None:
    """Replace this process's token by that of the cluster that it has joined."""
    os.environ[CLUSTER_TOKEN] = token


def process_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child process: this one's, and ``more``."""
    return {**os.environ, **(more or {})}


def _known_keys() -> list[str]:
    """Return ``["server.port", ...]``."""
    sections = Settings.model_fields.items()
    return [f"{name}.{key}" for name, field in sections for key in type(field.default).model_fields]


def _entry(key: str, value: Any, *, source: str, shown: Mapping[str, str]) -> Entry:
    """Return the entry of ``key``; ``shown`` maps a source's spelling to a known key."""
    if key not in shown:
        near = get_close_matches(key, shown, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise SettingsError(f"{source}: unknown setting '{key}'.{hint}")
    section, _, name = shown[key].partition(".")
    return section, name, value


def _from_flags(flags: Mapping[str, Any]) -> list[Entry]:
    shown = {key: key for key in _known_keys()}
    return [
        _entry(key, value, source="flags", shown=shown)
        for key, value in flags.items()
        if value is not None
    ]


def _from_environment(environment: Mapping[str, str]) -> list[Entry]:
    shown = {ENVIRONMENT_PREFIX + key.replace(".", "_").upper(): key for key in _known_keys()}
    return [
        _entry(key, _parse(value, shown.get(key, "")), source="environment", shown=shown)
        for key, value in environment.items()
        if key.startswith(ENVIRONMENT_PREFIX) and key not in _NO_SETTINGS
    ]


def _parse(value: str, key: str) -> Any:
    """Parse a variable: JSON for tables, comma-separated for lists, else unchanged."""
    section, _, name = key.partition(".")
    if not name:
        return value
    default = Settings.model_fields[section].default.model_dump()[name]
    if isinstance(default, dict):
        try:
            return json.loads(value)
        except ValueError as error:
            raise SettingsError(f"environment: {key}: not a JSON object: {error}") from error
    if isinstance(default, tuple):
        parts = tuple(part.strip() for part in value.split(",") if part.strip())
        if key == "server.api_keys" and not parts:
            raise SettingsError(  # a missing secret must not disable authentication
                "environment: ANTIPHON_SERVER_API_KEYS is empty. Unset it if no key is to be asked"
                " for."
            )
        return parts
    return value


def _from_file(file: Path) -> list[Entry]:
    try:
        tables = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise SettingsError(f"{file}: {error}") from error
    shown = {key: key for key in _known_keys()}
    entries = []
    for section, table in tables.items():
        names = table if isinstance(table, dict) else {"": table}
        for name, value in names.items():
            key = f"{section}.{name}".rstrip(".")
            entries.append(_entry(key, value, source=str(file), shown=shown))
    return entries


def _explain(error: Mapping[str, Any]) -> str:
    return f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}"
