"""Speech requests of each kind of server, as data: another server is another YAML paragraph."""

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from antiphon.errors import SettingsError
from antiphon_bench.texts import read_text

TaskName: TypeAlias = Literal["custom_voice", "voice_design", "base"]
Mode: TypeAlias = Literal["stream", "whole", "text_stream"]
TASKS: tuple[TaskName, ...] = get_args(TaskName)
MODES: tuple[Mode, ...] = get_args(Mode)
"""``stream``: text whole, audio as it is made; ``whole``: both whole; ``text_stream``: text goes in
word by word over a WebSocket, and audio comes as it is made."""


class TextStream(BaseModel):
    """A WebSocket that takes text in pieces: its messages, in which ``{text}`` stands for a piece.

    Attributes:
        config: the first message, beside the members of a request.
        last: type of the server's message after which no audio comes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str
    config: dict[str, Any]
    text: dict[str, Any]
    done: dict[str, Any]
    last: str


class ServerAdapter(BaseModel):
    """Speech requests of one kind of server.

    Attributes:
        stream: members of a request whose audio is to be sent as it is made.
        whole: members of one whose audio is to be sent when it is complete.
        tasks: members by task; ``{instructions}``, ``{ref_audio}``, ``{ref_text}`` are filled in.
        default_voice: default voice, for servers that require one.
        tokens_header: name of the header of a whole answer that counts frames.
        text_stream: protocol of servers that take text in pieces; ``None``: text goes whole.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    path: str = "/v1/audio/speech"
    stream: dict[str, Any]
    whole: dict[str, Any]
    tasks: dict[TaskName, dict[str, Any]]
    default_voice: str | None = None
    tokens_header: str | None = None
    text_stream: TextStream | None = None

    def members(
        self, task: str, mode: str, voice: str | None, values: Mapping[str, str]
    ) -> dict[str, Any]:
        """Return the members of a request other than its text; raises SettingsError.

        Args:
            task: one of `TASKS`.
            mode: one of `MODES`.
            voice: name of the voice; ``None`` where voices are designed or cloned.
            values: values of the placeholders in braces that tasks contain.
        """
        if task not in self.tasks:
            can = ", ".join(self.tasks)
            raise SettingsError(f"{self.title} is not asked for '{task}' here; it can: {can}.")
        if mode not in MODES or (mode == "text_stream" and self.text_stream is None):
            can = ", ".join(each for each in MODES if each != "text_stream" or self.text_stream)
            raise SettingsError(f"{self.title} is not measured as '{mode}'; it can: {can}.")
        base = {} if mode == "text_stream" else self.stream if mode == "stream" else self.whole
        members = base | {name: _filled(value, values) for name, value in self.tasks[task].items()}
        voice = voice or self.default_voice
        return members if voice is None or task != "custom_voice" else members | {"voice": voice}


def adapter(name: str, file: Path | None = None) -> ServerAdapter:
    """Return an adapter by its name, out of a file if one is given; raises SettingsError."""
    known = shipped_adapters() if file is None else _read(read_text(file), str(file))
    if name not in known:
        raise SettingsError(f"'{name}' is no adapter; there are {', '.join(known)}.")
    return known[name]


@cache
def shipped_adapters() -> dict[str, ServerAdapter]:
    """Return the adapters that the package carries, by name."""
    file = resources.files("antiphon_bench") / "data" / "servers.yaml"
    return _read(file.read_text(encoding="utf-8"), "servers.yaml")


def _read(text: str, name: str) -> dict[str, ServerAdapter]:
    try:
        found = yaml.safe_load(text)
        if not isinstance(found, dict):
            raise SettingsError(f"{name}: adapters by name are wanted.")
        return {str(key): ServerAdapter.model_validate(value) for key, value in found.items()}
    except (yaml.YAMLError, ValidationError) as error:
        raise SettingsError(f"{name}: {error}") from error


def _filled(value: Any, values: Mapping[str, str]) -> Any:
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    name = value.strip("{}")
    if name not in values:
        raise SettingsError(f"The task needs --{name.replace('_', '-')}.")
    return values[name]


def message(template: Mapping[str, Any], text: str = "") -> str:
    """Return a message of a text stream, with a piece of text where its template has it."""
    filled = {name: text if value == "{text}" else value for name, value in template.items()}
    return json.dumps(filled)
