"""All settings in one frozen tree, and the only reader of flags, environment and TOML.

Later sources win: defaults, TOML file, environment (``ANTIPHON_<SECTION>_<NAME>``), flags.
An unknown key in any of them is an error that suggests the nearest known one.
"""

import json
import os
import sys
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

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
    max_waiting: int = Field(256, ge=0, description="Listeners who may wait for a slot.")
    max_wait_s: float = Field(
        2.0, ge=0, description="Longest predicted wait for a slot; beyond it: 429."
    )
    max_load: float = Field(
        0.85, gt=0, le=1, description="Share of real time that all streams together may need."
    )


def _named_source(value: Any) -> Any:
    """Read ``SOURCE`` or ``NAME=SOURCE`` as a table."""
    if not isinstance(value, str):
        return value
    name, is_named, source = value.rpartition("=")
    return {"source": source, "name": name} if is_named else {"source": source}


class ModelsSettings(Section):
    """Further models of the same server, and how many are in memory at once."""

    more: tuple[Annotated[ModelSettings, BeforeValidator(_named_source)], ...] = Field(
        (), description="SOURCE or NAME=SOURCE each, or a table like [model]'s in a file."
    )
    lazy: bool = Field(False, description="Load a model when it is first asked for.")
    max_loaded: int = Field(
        0, ge=0, description="Most models in memory; the one idle for longest makes room. 0: all."
    )
    idle_s: float = Field(
        0.0, ge=0, description="A model that is idle for longer leaves the memory. 0: never."
    )
    wait_s: float = Field(
        30.0, ge=0, description="Requests wait this long for a model to be loaded, then get 503."
    )

    @property
    def unloads(self) -> bool:
        """Whether models that are in memory may leave it."""
        return bool(self.max_loaded or self.idle_s)


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
    pronunciations: dict[str, str] = Field(
        default_factory=dict, description="What is read instead of words, as SQL = 'sequel'."
    )
    max_batch_items: int = Field(32, ge=1, description="Most texts of one batch.")


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


class DataSettings(Section):
    """What the server keeps: voices that are uploaded, and consents."""

    dir: Path | None = Field(
        None, description="Folder for it, on a disk of this machine; default: the user's own."
    )
    blobs_url: str | None = Field(
        None, description="Where recordings are kept, as s3://bucket/path; default: in the folder."
    )
    max_voices: int = Field(
        1000, ge=0, description="Most voices that may be uploaded, and most consents."
    )
    max_owner_voices: int = Field(
        0, ge=0, description="Most voices, and most consents, of one owner. 0: no further limit."
    )
    min_free_mib: int = Field(
        100, ge=0, description="Nothing is stored that would leave less of the disk free."
    )

    @property
    def folder(self) -> Path:
        """The folder, which need not exist yet."""
        return (self.dir or _user_data_folder()).expanduser()


class JobSettings(Section):
    """Long texts that are spoken in the background."""

    max_jobs: int = Field(1000, ge=0, description="Most jobs that are kept, those at an end too.")
    max_owner_jobs: int = Field(0, ge=0, description="Most jobs of one owner. 0: no further limit.")
    max_input_characters: int = Field(5_000_000, ge=1, description="Longest text of one job.")
    max_gib: float = Field(
        0.0, ge=0, description="Disk that all jobs together may take. 0: what is free."
    )
    max_owner_gib: float = Field(
        0.0, ge=0, description="Disk that one owner's jobs may take. 0: no further limit."
    )
    max_crashes: int = Field(
        2, ge=1, description="A job under which servers have died so often is given up."
    )
    media_url: str | None = Field(
        None, description="Where results are kept, as s3://bucket/path; default: in the folder."
    )


def _user_data_folder() -> Path:
    """Return where a user's programs keep data on this system."""
    if chosen := os.environ.get("XDG_DATA_HOME"):
        return Path(chosen) / "antiphon"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", "~/AppData/Local")) / "antiphon"
    if sys.platform == "darwin":
        return Path("~/Library/Application Support/antiphon")
    return Path("~/.local/share/antiphon")


class ServerSettings(Section):
    """The HTTP server."""

    host: str = Field("127.0.0.1", description="Address to listen on; 0.0.0.0 is every one.")
    port: int = Field(8000, ge=0, le=65535, description="0 picks a free one.")
    api_keys: tuple[str, ...] = Field(
        (), description="Accepted keys, or their hashes as sha256:HEX; none: no key is asked."
    )
    api_keys_file: Path | None = Field(
        None, description="File of further keys or hashes, one a line; # begins a comment."
    )
    cors_origins: tuple[str, ...] = Field(("*",), description="Origins of pages that may call.")
    max_body_bytes: int = Field(
        16 * 1024 * 1024, ge=1024, description="Larger requests are refused."
    )
    max_idle_s: float = Field(
        300.0, gt=0, description="WebSockets on which nothing is said for longer are closed."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Least serious event that is logged."
    )
    log_format: Literal["text", "json"] = Field(
        "text", description="json: one object a line, with a line for each request."
    )
    traces: bool = Field(False, description="Make OpenTelemetry spans, if that is installed.")


class LimitSettings(Section):
    """How much is taken in at once, and how long anybody is waited for."""

    max_requests: int = Field(1000, ge=1, description="HTTP requests under way at once.")
    max_sockets: int = Field(1000, ge=0, description="WebSockets open at once.")
    key_concurrency: int = Field(
        0, ge=0, description="Requests and WebSockets of one key at once. 0: no limit."
    )
    key_requests_per_minute: int = Field(
        0, ge=0, description="Requests and WebSockets of one key in a minute. 0: no limit."
    )
    header_timeout_s: float = Field(
        10.0, gt=0, description="Connections whose headers take longer are closed."
    )
    body_timeout_s: float = Field(
        30.0, gt=0, description="Time for a body, and a second more for each 10 kB of it."
    )
    grace_s: float = Field(
        30.0, ge=0, description="How long streams under way may go on after SIGTERM."
    )
    exit_unhealthy_s: float = Field(
        0.0, ge=0, description="End the process if it is unhealthy for longer. 0: never."
    )
    stall_s: float = Field(
        120.0, gt=0, description="A model whose step takes longer makes /health fail."
    )


class Settings(Section):
    """Everything that can be set."""

    model: ModelSettings = ModelSettings()
    models: ModelsSettings = ModelsSettings()
    speech: SpeechSettings = SpeechSettings()
    references: ReferenceSettings = ReferenceSettings()
    data: DataSettings = DataSettings()
    jobs: JobSettings = JobSettings()
    server: ServerSettings = ServerSettings()
    limits: LimitSettings = LimitSettings()

    def served(self) -> tuple[ModelSettings, ...]:
        """All models, the default one first; what the others do not say is as it says."""
        shared = self.model.model_dump(include={"device", "dtype", "max_slots"})
        more = (each.model_dump(exclude_unset=True) for each in self.models.more)
        return (self.model, *(ModelSettings(**{**shared, **each}) for each in more))


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
