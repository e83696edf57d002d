"""Who may open a WebSocket, and what a flood of messages does to the others."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from types import SimpleNamespace

import httpx
import pytest
from starlette.websockets import WebSocket, WebSocketState
from websockets.exceptions import ConnectionClosed, InvalidStatus

from antiphon.api import sockets
from antiphon.config import ServerSettings, Settings
from antiphon.telemetry.metrics import Metrics
from tests.servers import TOY, RunningServer, server_of, start_server
from tests.sockets import audio, connected

PATHS = (
    "/v1/audio/speech/stream",
    "/v1/realtime",
    "/v1/speak",
    "/v1/text-to-speech/sine/stream-input",
    "/v1/text-to-speech/sine/multi-stream-input",
)
KEY = "sk-test"
PAGE = "https://page.example"


guarded = server_of(
    Settings(model=TOY.model, server=ServerSettings(api_keys=(KEY,), cors_origins=(PAGE,)))
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Token wrong"}, {"xi-api-key": "wrong"}], ids=str
)
def test_without_a_key_there_is_no_handshake(
    guarded: RunningServer, path: str, headers: Mapping[str, str]
) -> None:
    with pytest.raises(InvalidStatus) as refused, connected(guarded, path, headers):
        pass
    assert refused.value.response.status_code == 401
    assert b'"code":"invalid_api_key"' in bytes(refused.value.response.body)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [{"Authorization": f"Bearer {KEY}"}, {"Authorization": f"Token {KEY}"}, {"xi-api-key": KEY}],
    ids=str,
)
def test_a_key_opens_wherever_clients_put_it(
    guarded: RunningServer, path: str, headers: Mapping[str, str]
) -> None:
    with connected(guarded, path, headers) as talk:
        assert talk.connection.subprotocol is None


@pytest.mark.parametrize(
    ("offered", "taken"),
    [
        (["realtime", f"openai-insecure-api-key.{KEY}", "openai-beta.realtime-v1"], "realtime"),
        (["token", KEY], "token"),
    ],
)
def test_a_page_puts_its_key_among_the_subprotocols(
    guarded: RunningServer, offered: list[str], taken: str
) -> None:
    with connected(guarded, "/v1/realtime", subprotocols=offered) as talk:
        assert talk.connection.subprotocol == taken


def test_pages_from_elsewhere_may_not_connect(guarded: RunningServer) -> None:
    headers = {"Authorization": f"Bearer {KEY}"}
    for origin in (PAGE, guarded.base_url):
        with connected(guarded, "/v1/realtime", headers, origin=origin):
            pass
    with (
        pytest.raises(InvalidStatus) as refused,
        connected(guarded, "/v1/realtime", headers, origin="https://evil.example"),
    ):
        pass
    assert refused.value.response.status_code == 403


def test_a_flood_is_taken_in_at_the_agreed_pace(
    server: RunningServer, client: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "MESSAGES_PER_S", 100)
    monkeypatch.setattr(sockets, "BURST_MESSAGES", 10)
    text = "Hello, all of you."
    with connected(server, PATHS[0]) as talk:
        talk.send("session.config", response_format="pcm", seed=1)
        began_s = time.monotonic()
        for letter in text * 2:
            talk.send("input.text", text=letter)
        talk.send("input.done")
        found = talk.until("session.done")
    num_over = len(text) * 2 + 2 - 10
    assert time.monotonic() - began_s > num_over / 100 / 2, "nobody could have been as quick"
    body = {"input": text * 2, "response_format": "pcm", "seed": 1}
    assert audio(found) == client.post("/v1/audio/speech", json=body).content


async def test_others_have_their_turn_while_a_burst_is_followed() -> None:
    num_messages, num_turns = 10 * sockets.MESSAGES_A_TURN, 0

    async def receive() -> dict[str, str]:
        return {"type": "websocket.receive", "text": "{}"}

    async def send(message: object) -> None:
        pass

    async def take_turns() -> None:
        nonlocal num_turns
        while True:
            num_turns += 1
            await asyncio.sleep(0)

    others = asyncio.create_task(take_turns())
    state = SimpleNamespace(guards=SimpleNamespace(metrics=Metrics()))
    scope = {"type": "websocket", "app": SimpleNamespace(state=state)}
    websocket = WebSocket(scope, receive, send)
    websocket.client_state = WebSocketState.CONNECTED
    socket = sockets.Socket(websocket, max_idle_s=10)
    for _ in range(num_messages):
        assert await socket.receive() == {}
    others.cancel()
    assert num_turns >= num_messages // sockets.MESSAGES_A_TURN


def test_a_message_that_is_too_large_ends_the_connection(server: RunningServer) -> None:
    with connected(server, PATHS[0]) as talk:
        with suppress(ConnectionClosed):
            talk.connection.send("x" * (sockets.MAX_MESSAGE_BYTES + 1))
        assert not talk.rest()
        assert talk.close_code in (1006, 1009)  # the reset may overtake the reason
    with connected(server, PATHS[0]) as talk:
        talk.send("session.config")
        talk.send("input.done")
        assert talk.until("session.done")


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_a_server_that_stops_ends_what_is_open(says_goodbye: bool) -> None:
    with ExitStack() as stack:
        with start_server(TOY) as server:
            (model,) = server.state.speech.models.values()
            talk = stack.enter_context(connected(server, PATHS[0]))
            talk.send("session.config", response_format="pcm", stream_audio=True)
            talk.send("input.text", text="A long text, of which little is heard. " * 500)
            if says_goodbye:
                talk.send("session.close")
            talk.until(lambda each: isinstance(each, bytes))
        assert model.fabric.num_open == 0
        talk.rest()
        assert talk.close_code in (1006, 1012)
