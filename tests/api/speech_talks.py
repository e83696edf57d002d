"""Conversations of speech over a WebSocket, and the same speech over HTTP."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.servers import RunningServer
from tests.sockets import Client, connected

PATH = "/v1/audio/speech/stream"


@contextmanager
def opened(server: RunningServer, **config: Any) -> Generator[Client, None, None]:
    """Open a conversation; by default its audio is streamed PCM."""
    with connected(server, PATH) as client:
        client.send("session.config", **{"response_format": "pcm", "stream_audio": True, **config})
        yield client


def posted(client: httpx.Client, text: str, **more: Any) -> bytes:
    body = {"input": text, "response_format": "pcm", **more}
    return client.post("/v1/audio/speech", json=body).raise_for_status().content


def say(talk: Client, *texts: str) -> None:
    for text in texts:
        talk.send("input.text", text=text)
        talk.send("input.done")
