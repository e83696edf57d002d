"""The only reader of flags, environment and TOML.

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
"""The variable that holds what processes of one server prove themselves to each other with."""

API_KEY = "ANTIPHON_API_KEY"
"""Of a server that is asked for something, not of one that is started."""
_NO_SETTINGS = ("ANTIPHON_CONFIG", API_KEY, CLUSTER_TOKEN)

LIBRARY_DEFAULTS = {
    "CACHE_DIT_LOG_LEVEL": "WARNING",
    "ONEDNN_PRIMITIVE_CACHE_CAPACITY": "128",
}
"""oneDNN, PyTorch's convolutions on a CPU, keeps what it compiled for the last 1,024 shapes: every
length of a recording is another shape in each layer, which took 60 to 150 MiB. cache_dit logs
several lines for each network."""

Entry: TypeAlias = tuple[str, str, Any]
"""Section, name and value of one setting."""


def load_settings(
    flags: Mapping[str, Any] | None = None,
    *,
    file: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Settings:
    """Merge all sources into one tree.

    Args:
        flags: ``{"server.port": 8000}``; ``None`` values mean "not given".
        file: TOML with one table a section; default: ``ANTIPHON_CONFIG`` if that is set.
        environment: default: the process's own.

    Raises:
        SettingsError: naming the source, the key and, if it is unknown, the nearest known key.
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
    """Bound what libraries keep, and what they tell; call it before they start.

    The environment wins.

    Args:
        more: further variables of libraries, with their defaults.
    """
    for name, value in {**LIBRARY_DEFAULTS, **(more or {})}.items():
        os.environ.setdefault(name, value)


def cluster_token() -> str:
    """Return the token of the server's processes; it is made if the environment has none."""
    if not os.environ.get(CLUSTER_TOKEN):
        use_cluster_token(secrets.token_hex(32))
    return os.environ[CLUSTER_TOKEN]


def use_cluster_token(token: str) -> None:
    """Take another token than this process's own: that of the cluster that it has joined."""
    os.environ[CLUSTER_TOKEN] = token


def process_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a process that this one starts: its own, and ``more``."""
    return {**os.environ, **(more or {})}


def _known_keys() -> dict[str, tuple[str, str]]:
    """Return ``{"server.port": ("server", "port"), ...}``."""
    return {
        f"{section}.{name}": (section, name)
        for section, field in Settings.model_fields.items()
        for name in type(field.default).model_fields
    }


def _entry(key: str, value: Any, *, source: str, shown: Mapping[str, str]) -> Entry:
    """Find ``key`` among the known ones; ``shown`` maps a source's spelling to a known key."""
    if key not in shown:
        near = get_close_matches(key, shown, n=1, cutoff=0.5)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        raise SettingsError(f"{source}: unknown setting '{key}'.{hint}")
    section, name = _known_keys()[shown[key]]
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
    """Read a variable: JSON for tables, comma-separated for lists, else as it is."""
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
            raise SettingsError(  # a secret that is not there must not open the server
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
    known = _known_keys()
    entries = []
    for section, table in tables.items():
        names = table if isinstance(table, dict) else {"": table}
        for name, value in names.items():
            key = f"{section}.{name}".rstrip(".")
            entries.append(_entry(key, value, source=str(file), shown={k: k for k in known}))
    return entries


def _explain(error: Mapping[str, Any]) -> str:
    return f"{'.'.join(str(part) for part in error['loc'])}: {error['msg']}"
