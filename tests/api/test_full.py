"""A server without room for a listener refuses listeners, before a WebSocket opens, not files."""

from contextlib import AbstractContextManager
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from antiphon.config import ModelSettings, Settings
from tests.api.crowds import filled
from tests.servers import RunningServer, server_of, wait_until

SPEECH = "/v1/audio/speech"
ELEVENLABS = "/v1/text-to-speech/sine"


server = server_of(Settings(model=ModelSettings(source="toy", max_waiting=0)))


def full(server: RunningServer) -> AbstractContextManager[None]:
    """Keep all the room that there is for listeners."""
    return filled(server, server.state.speech.model(None))


def assert_refused(status: int, headers: Any) -> None:
    assert status == 429
    assert 1 <= int(headers["Retry-After"]) <= 30


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (SPEECH, {"input": "Hi.", "stream": True}),
        (SPEECH, {"input": "Hi.", "stream_format": "audio"}),
        (SPEECH, {"input": "Hi.", "response_format": "pcm"}),
        (f"{ELEVENLABS}/stream", {"text": "Hi."}),
        ("/v1/speak?encoding=linear16&container=none", {"text": "Hi."}),
    ],
)
def test_a_listener_is_refused(server: RunningServer, path: str, body: dict[str, Any]) -> None:
    with full(server):
        answer = httpx.post(f"{server.base_url}{path}", json=body)
        assert_refused(answer.status_code, answer.headers)
    assert httpx.post(f"{server.base_url}{path}", json=body).status_code == 200


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (SPEECH, {"input": "Hi.", "seed": 1}),
        (SPEECH, {"input": "Hi.", "seed": 1, "response_format": "wav", "stream": False}),
        (SPEECH, {"input": "Hi. " * 300, "seed": 1, "response_format": "flac"}),
        (ELEVENLABS, {"text": "Hi.", "seed": 1}),
        ("/v1/speak", {"text": "Hi."}),  # takes no seed
    ],
)
def test_a_file_is_made_behind_the_listeners(
    server: RunningServer, path: str, body: dict[str, Any]
) -> None:
    usual = httpx.post(f"{server.base_url}{path}", json=body)
    with full(server):
        answer = httpx.post(f"{server.base_url}{path}", json=body)
        assert answer.status_code == 200, answer.text
        assert answer.content == usual.content or "seed" not in body
    wait_until(lambda: server.num_open == 0)


@pytest.mark.parametrize(
    "path",
    [
        f"{SPEECH}/stream",
        "/v1/realtime",
        "/v1/speak",
        f"{ELEVENLABS}/stream-input",
        f"{ELEVENLABS}/multi-stream-input",
    ],
)
def test_a_websocket_is_refused_in_its_handshake(server: RunningServer, path: str) -> None:
    url = f"ws://127.0.0.1:{server.port}{path}"
    with full(server):
        with pytest.raises(InvalidStatus) as caught:
            connect(url, proxy=None)
        assert_refused(caught.value.response.status_code, caught.value.response.headers)
    with connect(url, proxy=None):
        pass
    wait_until(lambda: server.num_open == 0)
