"""Over a WebSocket as over HTTP: mistakes and faults are told, and who leaves frees everything."""

import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from antiphon.api import speech_ws
from antiphon.config import ServerSettings, Settings, SpeechSettings
from antiphon.contracts.types import SpeechRequest
from antiphon.pipeline.speech.service import Speech
from antiphon.pipeline.speech.text_plan import MAX_ITEMS_AHEAD
from tests import faulty
from tests.api.speech_talks import PATH, opened, posted, say
from tests.servers import DEADLINE_S, TOY, RunningServer, start_server, wait_until
from tests.sockets import Client, audio, connected, messages

BUFFER_BYTES = 32 * 1024


@pytest.mark.parametrize(
    ("message", "param", "code"),
    [
        ({"type": "input.text", "text": "x"}, "type", "invalid_value"),
        ({"type": "input.done"}, "type", "invalid_value"),
        ({"type": "session.config", "voice": "nobody"}, "voice", "voice_not_found"),
        ({"type": "session.config", "model": "nothing"}, "model", "model_not_found"),
        ({"type": "session.config", "speed": 9}, "speed", "invalid_value"),
        ({"type": "session.config", "language": "klingon"}, "language", "invalid_value"),
        ({"type": "session.config", "response_format": "x"}, "response_format", "invalid_value"),
        ({"type": "session.config", "split_granularity": 1}, "split_granularity", "invalid_value"),
        ([], None, "invalid_value"),
    ],
    ids=str,
)
def test_what_is_wrong_is_told_as_over_http(
    server: RunningServer, client: httpx.Client, message: Any, param: str | None, code: str
) -> None:
    with connected(server, PATH) as talk:
        talk.connection.send(json.dumps(message))
        (error,) = messages([talk.receive()])
        assert error["type"] == "error"
        assert error["message"] == error["error"]["message"]
        assert (error["error"]["param"], error["error"]["code"]) == (param, code)
        if isinstance(message, dict) and param in message and param != "type":
            body = {"input": "Hello.", **message}
            if param != "split_granularity":
                answer = client.post("/v1/audio/speech", json=body).json()
                assert answer["error"] == error["error"]
        talk.send("session.config", response_format="pcm")
        talk.send("input.text", text="Hello.")
        talk.send("input.done")
        assert audio(talk.until("session.done")), "the conversation goes on"


def test_a_sentence_that_is_refused_holds_up_no_other() -> None:
    settings = TOY.model_copy(update={"speech": SpeechSettings(max_input_characters=10)})
    with start_server(settings) as server, connected(server, PATH) as talk:
        talk.send("session.config", response_format="pcm", split_granularity="sentence")
        for text in ("Hello th", "ere my fr", "iend. ", "Now. "):
            talk.send("input.text", text=text)
        talk.send("input.done")
        found = talk.until("session.done")
    codes = [each["error"]["code"] for each in messages(found, "error")]
    assert codes == ["string_above_max_length", "invalid_value"]
    assert len(audio(found)) == len("Now.") * 2 * 960 * 2


@pytest.mark.parametrize(
    "message",
    [
        {"type": "input.text"},
        {"type": "input.text", "text": None},
        {"type": "input.text", "text": 3},
        {"type": "input.text", "text": "a" * 100_001},
        {"type": "input.sing"},
        {"type": ["input.text"]},
        {},
    ],
    ids=lambda message: str(message)[:40],
)
def test_a_wrong_message_leaves_the_utterance_as_it_was(
    server: RunningServer, client: httpx.Client, message: dict[str, Any]
) -> None:
    with opened(server, seed=1) as talk:
        talk.send("input.text", text="Hello ")
        talk.send(**message)
        talk.send("input.text", text="there.")
        talk.send("input.done")
        found = talk.until("session.done")
    assert len(messages(found, "error")) == 1
    assert audio(found) == posted(client, "Hello there.", seed=1)


def test_bytes_and_broken_json_are_refused(server: RunningServer) -> None:
    with connected(server, PATH) as talk:
        for message in (b"\x00", "{", "[" * 100_000, '"\\ud800"'):
            talk.connection.send(message)
            assert messages([talk.receive()])[0]["type"] == "error"


@pytest.mark.parametrize(
    ("text", "has_audio"),
    [("2 chunks, then engine error", True), ("0 chunks, then bug", False)],
)
def test_an_utterance_that_fails_is_told_and_the_next_is_spoken(
    faulty_server: RunningServer, text: str, has_audio: bool
) -> None:
    with opened(faulty_server) as talk:
        for each in (text, "1 chunks, then stop"):
            talk.send("input.text", text=each)
            talk.send("input.done")
        failed, spoken = talk.until("session.done"), talk.until("session.done")
    (error,) = messages(failed, "error")
    assert error["utterance_index"] == error["sentence_index"] == 0
    assert error["error"]["type"] == "server_error"
    assert "secret" not in str(error)
    assert error.get("action") == ("discard" if has_audio else None)
    assert [each["error"] for each in messages(failed, "audio.done")] == [True] * has_audio
    assert len(audio(spoken)) == faulty.CHUNK_SAMPLES * 2


PHASES: dict[str, Callable[[Client], None]] = {
    "at once": lambda talk: None,
    "with text": lambda talk: talk.send("input.text", text="2000 chunks, "),
    "when it is complete": lambda talk: say(talk, "2000 chunks, then stop"),
    "when it is heard": lambda talk: _hear(talk, "2000 chunks, then stop"),
    "when nothing can be heard": lambda talk: say(talk, "0 chunks, then silence"),
    "with more waiting": lambda talk: say(talk, *["9 chunks, then stop"] * 9),
    "when it is cleared": lambda talk: talk.send("input.clear"),
    "when it has said goodbye": lambda talk: _leave(talk, "2000 chunks, then stop"),
}


def _hear(talk: Client, text: str) -> None:
    say(talk, text)
    talk.until(lambda each: isinstance(each, bytes))


def _leave(talk: Client, text: str) -> None:
    _hear(talk, text)
    talk.send("session.close")


@pytest.mark.parametrize("is_polite", [True, False])
@pytest.mark.parametrize("phase", PHASES.values(), ids=PHASES.keys())
def test_a_client_that_leaves_frees_everything(
    faulty_server: RunningServer, phase: Callable[[Client], None], is_polite: bool
) -> None:
    tasks = faulty_server.tasks()
    with opened(faulty_server) as talk:
        phase(talk)
        if not is_polite:
            talk.connection.socket.shutdown(2)
    wait_until(lambda: faulty_server.num_open == 0)
    wait_until(lambda: faulty_server.tasks() <= tasks)


def test_a_slow_reader_slows_the_model_down(
    faulty_server: RunningServer, faulty_client: httpx.Client
) -> None:
    seed, num_chunks, chunk_bytes = 77, 400, faulty.CHUNK_SAMPLES * 2
    # What may be under way: in the client's queue, in both kernels, in the transport, pulled ahead.
    max_ahead = 16 + (6 * BUFFER_BYTES + 64 * 1024) // chunk_bytes + MAX_ITEMS_AHEAD + 3
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    narrow.connect(("127.0.0.1", faulty_server.port))
    with connected(faulty_server, PATH, sock=narrow) as client:
        client.send("session.config", response_format="pcm", stream_audio=True, seed=seed)
        say(client, f"{num_chunks} chunks, then stop")
        client.receive()
        for num_read in range(1, num_chunks + 1):
            assert isinstance(client.receive(), bytes)
            if num_read % 100 == 1:
                # Another is served to its end meanwhile: time enough to run ahead.
                body = {"input": "60 chunks, then stop", "seed": 1}
                faulty_client.post("/v1/audio/speech", json=body)
                assert faulty.PULLED[seed] <= num_read + max_ahead
        assert faulty.PULLED[seed] == num_chunks


def test_too_much_that_waits_is_refused(faulty_server: RunningServer) -> None:
    with opened(faulty_server) as talk:
        _hear(talk, "1 chunks, then silence")
        for _ in range(515):
            say(talk, "1 chunks, then stop")
        assert messages(talk.until("error"))[-1]["error"]["code"] == "rate_limit_exceeded"


def test_a_client_has_its_time_after_the_handshake(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It waits for a place, or for a replica that is loaded again."""

    async def wait(self: Speech, request: SpeechRequest) -> None:
        await asyncio.sleep(1.5 * speech_ws.CONFIG_WITHIN_S)

    monkeypatch.setattr(speech_ws, "CONFIG_WITHIN_S", 0.4)
    monkeypatch.setattr(Speech, "check_room", wait)
    with connected(server, PATH) as talk:
        talk.send("session.config", response_format="pcm")
        talk.send("input.text", text="Hello.")
        talk.send("input.done")
        assert audio(talk.until("session.done"))


def test_a_conversation_must_begin_and_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(model=TOY.model, server=ServerSettings(max_idle_s=0.2))
    with start_server(settings) as server:
        for within_s, config in ((0.05, []), (DEADLINE_S, [{"type": "session.config"}])):
            monkeypatch.setattr(speech_ws, "CONFIG_WITHIN_S", within_s)
            with connected(server, PATH) as talk:
                for message in config:
                    talk.send(**message)
                (error,) = messages(talk.rest())
                assert error["error"]["code"] == "timeout"
                assert talk.close_code == 1001
        assert server.num_open == 0
