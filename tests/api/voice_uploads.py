"""Uploads of voices, and speech with them, to a server that keeps none of another test."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import httpx

from tests.recordings import RECORDING
from tests.servers import RunningServer

URL = "/v1/audio/voices"
WORDS = "I said this."
EMBEDDING = [n / 64 for n in range(64)]
SPEECH: dict[str, Any] = {
    "input": "Hello there.",
    "response_format": "pcm",
    "max_new_tokens": 6,
    "seed": 7,
}


@contextmanager
def client_without_uploads(server: RunningServer) -> Generator[httpx.Client, None, None]:
    """Make a client of a server that has no uploaded voices, before and after the block."""
    with httpx.Client(base_url=server.base_url, timeout=60) as client:
        yield client
        for voice in uploaded(client):
            assert client.delete(f"{URL}/{voice['id']}").status_code == 200


def upload(client: httpx.Client, file: Any = RECORDING, **fields: Any) -> httpx.Response:
    return client.post(URL, data={"name": "Ann", **fields}, files={"audio_sample": file})


def uploaded(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(URL).json()["uploaded_voices"]
    return found


def spoken(client: httpx.Client, **fields: Any) -> bytes:
    response = client.post("/v1/audio/speech", json={**SPEECH, **fields})
    assert response.status_code == 200, response.text
    return response.content
