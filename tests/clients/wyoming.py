"""The proxy between Home Assistant and OpenAI's API, in an environment of its own, and its client.

It asks for a newer Python than we do and for one exact version of OpenAI's SDK.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.servers import DEADLINE_S, wait_until

DIRECTORY = Path(__file__).parents[2] / ".venv-wyoming"
PACKAGE = "wyoming-openai==0.8.0"
NEEDS_PYTHON = (3, 12)
_NO_REGISTRY = ("connection broken by", "ReadTimeoutError", "ConnectTimeoutError")


def proxy_python() -> Path:
    """Return a Python that has the proxy: the one that ``WYOMING_OPENAI`` names, or ours.

    Ours is made once. A test that asks for it is skipped where there is no Python that is new
    enough, or no package registry.
    """
    if given := os.environ.get("WYOMING_OPENAI"):
        return Path(given)
    python, stamp = DIRECTORY / "bin" / "python", DIRECTORY / ".complete"
    wanted = f"{DIRECTORY} {PACKAGE}"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
        return python
    base = next(filter(_is_new_enough, _pythons()), None)
    if base is None:
        pytest.skip(f"{PACKAGE} needs Python {'.'.join(map(str, NEEDS_PYTHON))}")
    subprocess.run([base, "-m", "venv", "--clear", DIRECTORY], check=True)
    install = (python, "-m", "pip", "install", "--quiet", PACKAGE)
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode and any(sign in done.stderr for sign in _NO_REGISTRY):
        pytest.skip("the package registry cannot be reached")
    assert done.returncode == 0, done.stderr
    stamp.write_text(wanted, encoding="utf-8")
    return python


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _pythons() -> Iterator[str]:
    yield sys.executable
    yield from filter(None, map(shutil.which, ("python3.14", "python3.13", "python3.12")))
    # Where several interpreters are kept side by side, those beside the one that runs us.
    yield from map(str, sorted(Path(sys.base_prefix).parent.glob("*3.1[2-9]*/bin/python3")))


def _is_new_enough(python: str) -> bool:
    code = f"import sys; sys.exit(sys.version_info < {NEEDS_PYTHON})"
    return subprocess.run([python, "-c", code], capture_output=True, check=False).returncode == 0


@dataclass(frozen=True)
class Event:
    """A message of the Wyoming protocol: a line of JSON, more JSON, and bytes."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""


class WyomingClient:
    def __init__(self, port: int) -> None:

        def is_listening() -> bool:
            with closing(socket.socket()) as knock:
                return knock.connect_ex(("127.0.0.1", port)) == 0

        wait_until(is_listening)
        self._socket = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
        self._reader = self._socket.makefile("rb")

    def close(self) -> None:
        self._reader.close()
        self._socket.close()

    def send(self, type: str, data: Mapping[str, Any] | None = None) -> None:
        line = {"type": type, "data": dict(data or {}), "version": "1.10.2"}
        self._socket.sendall(json.dumps(line).encode() + b"\n")

    def receive(self) -> Event:
        line = self._reader.readline()
        assert line, "the proxy has hung up"
        told = json.loads(line)
        data = dict(told.get("data") or {})
        data |= json.loads(self._reader.read(told.get("data_length") or 0) or b"{}")
        return Event(told["type"], data, self._reader.read(told.get("payload_length") or 0))

    def until(self, type: str) -> list[Event]:
        events = [self.receive()]
        while events[-1].type != type:
            events.append(self.receive())
        return events
