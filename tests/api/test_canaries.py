"""Nothing that a client sends is logged, at any level: words, recordings, names, keys, paths."""

import base64
import io
import json
import logging
import secrets
from collections.abc import Generator
from contextlib import suppress
from typing import Any

import httpx
import pytest
from websockets.exceptions import WebSocketException

from antiphon.telemetry import logs
from antiphon.telemetry.logs import MAX_LINE_BYTES, configure_logging
from tests.servers import RunningServer
from tests.sockets import connected

URL = "/v1/audio/speech"
CANARY = f"canary{secrets.token_hex(4)}"
KEY = f"key{secrets.token_hex(8)}"


@pytest.fixture(params=["text", "json"])
def log(request: pytest.FixtureRequest) -> Generator[io.StringIO, None, None]:
    """Log everything, as `antiphon serve --log-level debug` does, and put all back afterwards."""
    root, written = logging.getLogger(), io.StringIO()
    loggers = [root, *map(logging.getLogger, logs.TALKATIVE)]
    handlers, levels = root.handlers[:], [each.level for each in loggers]
    configure_logging("debug", request.param)
    handler = root.handlers[0]
    assert isinstance(handler, logging.StreamHandler)
    handler.setStream(written)
    try:
        yield written
    finally:
        root.handlers[:] = handlers
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)


def assert_silent(log: io.StringIO, *more: str) -> None:
    lines = log.getvalue().splitlines()
    assert lines, "nothing was logged, so nothing was tested"
    assert max(len(line.encode()) for line in lines) <= MAX_LINE_BYTES
    for word in (CANARY, KEY, *more):
        assert not [line for line in lines if word in line]


def post(server: RunningServer, path: str, **content: Any) -> None:
    headers = {"Authorization": f"Bearer {KEY}", "xi-api-key": KEY, "X-Other": CANARY}
    headers |= {"Content-Type": "application/json"} if "content" in content else {}
    with httpx.Client(base_url=server.base_url, headers=headers, timeout=60) as client:
        client.post(path, params={"token": KEY, "q": CANARY}, **content)


@pytest.mark.parametrize(
    "body",
    [
        {"input": f"Say {CANARY}."},
        {"input": CANARY * 30_000},
        {"input": "Hi.", "voice": CANARY},
        {"input": "Hi.", "model": CANARY},
        {"input": "Hi.", "instructions": CANARY, "response_format": CANARY},
        {"input": "Hi.", CANARY: CANARY},
        {"input": {CANARY: [CANARY]}},
        {"input": f"[pause:{CANARY}]"},
        {"input": "Hi.", "stream": CANARY, "speed": CANARY, "seed": CANARY},
        {"input": f"{CANARY}\ud800"},
        {"input": CANARY, "voice": f"\ud800{CANARY}"},
    ],
    ids=range(11),
)
def test_the_fields_of_a_request(
    server: RunningServer, log: io.StringIO, body: dict[str, object]
) -> None:
    post(server, URL, content=json.dumps(body))  # which can say surrogates
    post(server, f"{URL}/batch", content=json.dumps({"items": [body]}))
    assert_silent(log)


def test_bodies_that_are_none(server: RunningServer, log: io.StringIO) -> None:
    for content in (f'{{"input": {CANARY}}}', f'["{CANARY}"]', CANARY):
        post(server, URL, content=content.encode())
    assert_silent(log)


def test_paths_and_names(server: RunningServer, log: io.StringIO) -> None:
    for path in (f"/{CANARY}", f"/v1/text-to-speech/{CANARY}", f"/v1/audio/voices/{CANARY}"):
        post(server, path, json={"text": CANARY})
    assert_silent(log)


@pytest.mark.parametrize("path", [URL, "/v1/audio/voices"])
def test_forms_and_recordings(server: RunningServer, log: io.StringIO, path: str) -> None:
    recording = CANARY.encode() * 200_000
    files = {"ref_audio": (f"{CANARY}.wav", recording, "audio/wav"), "audio_sample": recording}
    post(server, path, data={"input": CANARY, "name": CANARY, CANARY: CANARY}, files=files)
    encoded = base64.b64encode(recording[:300]).decode()
    post(server, path, json={"input": "Hi.", "ref_audio": f"data:audio/wav;base64,{encoded}"})
    assert_silent(log, encoded[:24])


def test_messages_of_websockets(server: RunningServer, log: io.StringIO) -> None:
    for path in ("/v1/audio/speech/stream", "/v1/realtime", "/v1/speak"):
        with suppress(WebSocketException), connected(server, f"{path}?token={KEY}") as client:
            client.send("session.config", voice=CANARY)
            client.send("input.text", text=CANARY)
            client.send("Speak", text=CANARY)
            client.send(CANARY, **{CANARY: CANARY})
            client.connection.send(CANARY)
            client.connection.close()
    post(server, URL, json={"input": "Hi."})  # something is logged
    assert_silent(log)


def test_what_a_fault_inside_says(faulty_server: RunningServer, log: io.StringIO) -> None:
    """An exception may quote what it failed at; where it was raised is told all the same."""
    post(faulty_server, URL, json={"input": "0 chunks, then bug"})
    assert_silent(log, "RuntimeError: a secret of the inside")
    assert "RuntimeError" in log.getvalue()
    assert "faulty.py" in log.getvalue()
