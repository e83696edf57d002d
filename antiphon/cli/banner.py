"""What ``antiphon serve`` says once it listens: its addresses, its voices and a first call."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from rich.console import Console
from rich.markup import escape

from antiphon import __version__
from antiphon.api.state import ServerState
from antiphon.pipeline.speech.model import SpeechModel

_ANY_HOST = {"0.0.0.0": "127.0.0.1", "::": "[::1]", "": "127.0.0.1"}
MAX_SHOWN_VOICES = 8


@dataclass(frozen=True, slots=True)
class Banner:
    """What is said of a server that listens; data.

    Attributes:
        url: of its page.
        rows: what there is to know, by name.
        has_keys: whether a call needs a key.
    """

    url: str
    rows: Mapping[str, str]
    has_keys: bool

    @classmethod
    def of(cls, server: ServerState, port: int) -> Self:
        """Describe a server that listens on a port."""
        url = f"http://{_reachable(server.settings.server.host)}:{port}"
        model, *more = server.speech.models.values()
        rows = {
            "Page": url,
            "API": f"{url}/v1",
            "Model": f"{model.name}: {model.family.title}",
            **({"More": ", ".join(each.name for each in more)} if more else {}),
            "Voices": _voices(model),
        }
        return cls(url, rows, has_keys=bool(server.guards.keys))


def announce(banner: Banner) -> None:
    """Print the address of a server that listens, on stdout."""
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"\n[bold]Antiphon {__version__}[/] is listening. Ctrl-C stops it.\n")
    for name, value in banner.rows.items():
        console.print(f"  [bold]{name:<8}[/]{escape(value)}")
    first_call = _first_call(f"{banner.url}/v1", has_keys=banner.has_keys)
    console.print("\n" + escape(first_call) + "\n")


def _reachable(host: str) -> str:
    """Return how to write ``host`` in a URL of this machine."""
    if host in _ANY_HOST:
        return _ANY_HOST[host]
    return f"[{host}]" if ":" in host else host


def _voices(model: SpeechModel) -> str:
    voices = [voice.id for voice in model.capabilities.voices]
    num_more = len(voices) - MAX_SHOWN_VOICES
    return ", ".join(voices[:MAX_SHOWN_VOICES]) + (f" and {num_more} more" if num_more > 0 else "")


def _first_call(base_url: str, *, has_keys: bool) -> str:
    key = ' -H "Authorization: Bearer YOUR_KEY"' if has_keys else ""
    body = json.dumps({"input": "Hello there."})
    return (
        f'  curl {base_url}/audio/speech{key} -H "Content-Type: application/json" \\\n'
        f"    -d '{body}' -o hello.mp3"
    )
