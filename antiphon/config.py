"""All settings in one frozen tree, and the only reader of flags, environment and TOML.

Later sources win: defaults, TOML file, environment (``ANTIPHON_<SECTION>_<NAME>``), flags.
An unknown key in any of them is an error that suggests the nearest known one.
"""

import json
import os
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from antiphon.errors import SettingsError

ENVIRONMENT_PREFIX = "ANTIPHON_"
OPENAI_VOICES = (
    *("alloy", "ash", "ballad", "cedar", "coral", "echo", "fable"),
    *("marin", "nova", "onyx", "sage", "shimmer", "verse"),
)
OPENAI_MODELS = ("tts-1", "tts-1-hd", "gpt-4o-mini-tts")


class Section(BaseModel):
    """Base of all sections: frozen, and unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class ModelSettings(Section):
    """Which model is served, and on what."""

    source: str | None = Field(
        None,
        description="A built-in model, a checkpoint's directory, or its ORG/NAME on the hub;"
        " default: the small voice.",
    )
    name: str | None = Field(None, description="Served name; default: last part of the source.")
    device: str = Field("auto", description="cpu, cuda, cuda:N or auto.")
    dtype: Literal["auto", "bfloat16", "float32"] = Field(
        "auto", description="What the weights are computed in."
    )
    max_slots: int = Field(64, ge=1, description="Requests that a stage works on at once.")
    cache_gib: float | None = Field(
        None, gt=0, description="Memory for keys and values; default: what the slots usually need."
    )
    deterministic: bool = Field(
        False, description="On a GPU too, make a request's audio independent of its company."
    )


class SpeechSettings(Section):
    """What the speech API accepts."""

    max_input_characters: int = Field(
        100_000, ge=1, description="Longest text of one request; long text is split."
    )
    voice_aliases: dict[str, str] = Field(
        default_factory=lambda: dict.fromkeys(OPENAI_VOICES, "default"),
        description="Further names of voices; 'default' is the model's first voice.",
    )
    model_aliases: dict[str, str] = Field(
        default_factory=lambda: dict.fromkeys(OPENAI_MODELS, "default"),
        description="Further names of models; 'default' is the served model.",
    )


class ReferenceSettings(Section):
    """Where recordings of voices to be cloned may come from, and how large they may be."""

    allow_urls: bool = Field(False, description="Fetch recordings from http(s) addresses.")
    allowed_hosts: tuple[str, ...] = Field(
        (), description="Hosts to fetch from, 'example.com' or '*.example.com'; none: any host."
    )
    allowed_networks: tuple[IPv4Network | IPv6Network, ...] = Field(
        (), description="Networks to fetch from besides the public internet, as 10.1.0.0/16."
    )
    allowed_media_path: Path | None = Field(
        None, description="Directory whose files may be named as file:///path; none: no files."
    )
    max_bytes: int = Field(10 * 1024 * 1024, ge=1)
    timeout_s: float = Field(10.0, gt=0, description="For a fetch from beginning to end.")
    min_duration_s: float = Field(1.0, ge=0)
    max_duration_s: float = Field(30.0, gt=0)


class ServerSettings(Section):
    """The HTTP server."""

    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 is every one.")
    port: int = Field(8000, ge=0, le=65535, description="0 picks a free one.")
    api_keys: tuple[str, ...] = Field((), description="Accepted keys; none: no key is asked.")
    cors_origins: tuple[str, ...] = Field(("*",), description="Origins of pages that may call.")
    max_body_bytes: int = Field(
        16 * 1024 * 1024, ge=1024, description="Larger requests are refused."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least serious event that is logged."
    )


class Settings(Section):
    """Everything that can be set."""

    model: ModelSettings = ModelSettings()
    speech: SpeechSettings = SpeechSettings()
    references: ReferenceSettings = ReferenceSettings()
    server: ServerSettings = ServerSettings()


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
        if key.startswith(ENVIRONMENT_PREFIX) and key != "ANTIPHON_CONFIG"
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
        return tuple(part.strip() for part in value.split(",") if part.strip())
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
