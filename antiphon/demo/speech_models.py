"""Models, voices and languages that a server offers a demonstration."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import httpx

from antiphon.demo.proxy import DemoUpstream
from antiphon.errors import SettingsError

_TIMEOUT_S = 10.0
_SPEECH = "text-to-speech"


@dataclass(frozen=True, slots=True)
class ServedVoice:
    """A speech model of a server.

    Attributes:
        voices: ``(what people read, id)``, the default first.
        cloning: whether it speaks as a recording does.
        voice_design: whether instructions describe the voice itself.
    """

    id: str
    sample_rate_hz: int
    voices: tuple[tuple[str, str], ...]
    languages: tuple[str, ...]
    instructions: bool
    cloning: bool
    voice_design: bool

    @classmethod
    def of(cls, described: dict[str, Any], voices: list[dict[str, Any]]) -> Self:
        """Read a model of ``/v1/models`` with its voices of ``/v1/audio/voices``."""
        return cls(
            id=described["id"],
            sample_rate_hz=described["sample_rate"],
            voices=tuple((each["name"], each["id"]) for each in voices),
            languages=tuple(described["languages"]),
            instructions=described["instructions"],
            cloning=described["cloning"],
            voice_design=described["voice_design"],
        )


def speech_models(upstream: DemoUpstream) -> list[ServedVoice]:
    """Ask a server for its speech models; raises SettingsError."""
    with _asking(upstream) as client:
        models = [
            each for each in _data(client.get("/v1/models")) if _SPEECH in each.get("tasks", ())
        ]
        found = [
            ServedVoice.of(
                each, _data(client.get("/v1/audio/voices", params={"model": each["id"]}))
            )
            for each in models
        ]
    if not found:
        raise SettingsError(f"{upstream.url} serves no speech model.")
    return found


def chat_models(upstream: DemoUpstream) -> list[str]:
    """Ask a server for the ids of its models that chat; raises SettingsError."""
    with _asking(upstream) as client:
        return [each["id"] for each in _data(client.get("/v1/models")) if "chat" in each]


@contextmanager
def _asking(upstream: DemoUpstream) -> Generator[httpx.Client, None, None]:
    """Yield a client; what it or an unexpected answer raises is an error that names the server."""
    try:
        with httpx.Client(
            base_url=upstream.url, headers=upstream.headers, timeout=_TIMEOUT_S
        ) as client:
            yield client
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"{upstream.url} does not answer as an Antiphon server does: {error!r}."
            " Start one with 'antiphon serve', or name it with --url."
        ) from error


def _data(response: httpx.Response) -> list[dict[str, Any]]:
    response.raise_for_status()
    found: list[dict[str, Any]] = response.json()["data"]
    return found
