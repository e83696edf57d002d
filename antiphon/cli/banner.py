"""Banner of ``antiphon serve``, printed once it listens: addresses, voices and a first call."""

import json
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rich.console import Console
from rich.markup import escape

from antiphon import __version__
from antiphon.api.state import ServerState
from antiphon.cli.listen import listened
from antiphon.pipeline.speech.model import SpeechModel

_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}
MAX_SHOWN_VOICES = 8
_CHAT = {"messages": [{"role": "user", "content": "Hello."}]}
_FIRST_CALLS: Mapping[str, tuple[str, Mapping[str, Any], str]] = {
    "speech": ("audio/speech", {"input": "Hello there."}, " -o hello.mp3"),
    "image": ("images/generations", {"prompt": "A cat on a windowsill"}, ""),
    "video": ("videos", {"prompt": "A cat leaves its windowsill"}, ""),
    "chat": ("chat/completions", _CHAT, ""),
    "chat_voice": ("chat/completions", {**_CHAT, "modalities": ["text", "audio"]}, ""),
}
"""Of each task a path, a body, and what follows."""


@dataclass(frozen=True, slots=True)
class Banner:
    """Description of a server that listens; data.

    Attributes:
        rows: facts about the server, by name.
    """

    url: str
    rows: Mapping[str, str]
    has_keys: bool
    task: str = "speech"

    @classmethod
    def of(cls, server: ServerState, sockets: Sequence[socket.socket]) -> Self:
        """Describe a server that listens on sockets, all of one port."""
        port = sockets[0].getsockname()[1]
        url = f"http://{_reachable(server.settings.server.host)}:{port}"
        name, *more = server.models.by_name()
        first = server.models.tasks[0]
        rows = {
            "Page": url,
            "API": f"{url}/v1",
            "Listens": listened(sockets),
            "Model": f"{name}: {first.family.title}",
            **({"More": ", ".join(more)} if more else {}),
        }
        if server.models.speech:
            rows["Voices"] = _voices(server.speech.model(None))
        return cls(url, rows, bool(server.guards.keys), first.task_name)


def announce(banner: Banner) -> None:
    """Print the address of a server that listens, on stdout."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"\n[bold]Antiphon {__version__}[/] is listening. Ctrl-C stops it.\n")
    for name, value in banner.rows.items():
        console.print(f"  [bold]{name:<8}[/]{escape(value)}")
    console.print("\n" + escape(_first_call(banner)) + "\n")


def _reachable(host: str) -> str:
    """Return how to write ``host`` in a URL of this machine."""
    if host in _ANY_HOST:
        return _ANY_HOST[host]
    return f"[{host}]" if ":" in host else host


def _voices(model: SpeechModel) -> str:
    voices = [voice.id for voice in model.capabilities.voices]
    num_more = len(voices) - MAX_SHOWN_VOICES
    return ", ".join(voices[:MAX_SHOWN_VOICES]) + (f" and {num_more} more" if num_more > 0 else "")


def _first_call(banner: Banner) -> str:
    key = ' -H "Authorization: Bearer YOUR_KEY"' if banner.has_keys else ""
    path, body, output = _FIRST_CALLS[banner.task]
    return (
        f'  curl {banner.url}/v1/{path}{key} -H "Content-Type: application/json" \\\n'
        f"    -d '{json.dumps(body)}'{output}"
    )
