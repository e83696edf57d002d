"""Extreme values in any field: never a failure of the server, and the connection goes on."""

import json
import re
from collections.abc import Generator, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

import httpx
import pytest
from pydantic import BaseModel
from websockets.exceptions import ConnectionClosed

from antiphon.api.schemas import elevenlabs, realtime, realtime_agent, speech_ws
from tests.api.extremes import EXTREMES, placed, places, requests
from tests.api.test_description import OPERATIONS, check
from tests.servers import RunningServer
from tests.sockets import connected

NUM_SHOWN = 5
STEP = 23
"""The normal run takes every 23rd case of a list in which neighbours differ in their value."""
INTERNAL = re.compile(r'antiphon_errors_total\{code="internal_error"[^}]*\} ([\d.]+)')

SESSION = {"type": "session.config"}
ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
Messages = Mapping[type[BaseModel], Mapping[str, Any]]
SPEAKING: Messages = {
    realtime.SessionUpdate: {"type": "session.update"},
    realtime.ItemCreate: {"type": "conversation.item.create", "item": ITEM},
    realtime.ResponseCreate: {"type": "response.create"},
}
AGENT: Messages = {
    realtime_agent.AgentSessionUpdate: {"type": "session.update"},
    realtime_agent.AgentItemCreate: {"type": "conversation.item.create", "item": ITEM},
    realtime_agent.AgentItemNamed: {"type": "conversation.item.delete"},
    realtime_agent.AgentItemTruncate: {"type": "conversation.item.truncate", "audio_end_ms": 0},
    realtime_agent.AgentReplyCreate: {"type": "response.create"},
    realtime.ResponseCancel: {"type": "response.cancel"},
}
SOCKETS: Mapping[str, Messages] = {
    "/v1/audio/speech/stream": {
        speech_ws.SessionConfig: SESSION,
        speech_ws.InputText: {"type": "input.text"},
    },
    "/v1/realtime": SPEAKING,
    "/v1/realtime?model=toy": AGENT,
    "/v1/text-to-speech/default/stream-input": {elevenlabs.StreamMessage: {"text": " "}},
    "/v1/text-to-speech/default/multi-stream-input": {elevenlabs.StreamMessage: {"text": " "}},
    "/v1/speak?encoding=linear16": {speech_ws.InputText: {"type": "Speak", "text": "Hi."}},
}


@pytest.fixture(autouse=True)
def no_failures(client: httpx.Client) -> Generator[None, None, None]:
    """Compare how often the server has failed, over HTTP or a WebSocket."""
    before = INTERNAL.findall(client.get("/metrics").text)
    yield
    assert INTERNAL.findall(client.get("/metrics").text) == before


@cache
def cases() -> list[tuple[str, Any, dict[str, Any]]]:
    return [
        (f"{operation.name}: {what}", operation, request)
        for operation in OPERATIONS
        for what, request in requests(operation)
    ]


def run(client: httpx.Client, start: int, step: int) -> None:
    wrong: list[str] = []
    for what, operation, request in islice(cases(), start, None, step):
        try:
            check(client, operation, request)
        except (AssertionError, httpx.HTTPError) as error:
            wrong.append(f"{what}: {str(error)[:300]}")
    assert not wrong, "\n".join([f"{len(wrong)} wrong", *wrong[:NUM_SHOWN]])


def test_extremes_over_http(client: httpx.Client) -> None:
    run(client, 0, STEP)


@pytest.mark.slow  # some ten thousand requests; the normal run makes those from 0 on
@pytest.mark.parametrize("start", range(1, STEP))
def test_all_extremes_over_http(client: httpx.Client, start: int) -> None:
    run(client, start, STEP)


def messages(models: Messages) -> Iterator[dict[str, Any]]:
    for model, base in models.items():
        schema = json.loads(json.dumps(model.model_json_schema()))
        for path in dict.fromkeys(places(schema, schema)):
            for value in EXTREMES:
                yield placed(dict(base), path, value)


def sent(server: RunningServer, path: str, message: Mapping[str, Any]) -> str | None:
    """Send a message and then what is no JSON; return what is wrong with the end."""
    with connected(server, path) as client:
        client.connection.send(json.dumps(message))
        client.connection.send("{")
        try:
            client.until(lambda each: isinstance(each, dict) and "Invalid JSON" in str(each))
        except ConnectionClosed:
            return None if client.close_code not in (1006, 1011) else f"{client.close_code}"
        return None


def run_sockets(server: RunningServer, step: int) -> None:
    each_one = ((path, each) for path, models in SOCKETS.items() for each in messages(models))
    wrong = [
        f"{path}: {found} after {message!s:.300}"
        for path, message in islice(each_one, None, None, step)
        if (found := sent(server, path, message)) is not None
    ]
    assert not wrong, "\n".join([f"{len(wrong)} wrong", *wrong[:NUM_SHOWN]])


def test_extremes_over_websockets(server: RunningServer) -> None:
    run_sockets(server, STEP)


@pytest.mark.slow  # some thousand conversations
def test_all_extremes_over_websockets(server: RunningServer) -> None:
    run_sockets(server, 1)
