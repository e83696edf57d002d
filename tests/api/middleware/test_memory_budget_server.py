"""A server with a budget of memory: bodies, answers and messages are bounded, and others served."""

import json
import socket
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from antiphon.config import LimitSettings, ModelSettings, ServerSettings, Settings
from tests import faulty, raw
from tests.decoding import error_of
from tests.servers import RunningServer, start_server, wait_until
from tests.sockets import Client, connected

MIB = 1024 * 1024
CHUNK_BYTES = 2 * faulty.CHUNK_SAMPLES
SPEECH, BATCH = "/v1/audio/speech", "/v1/audio/speech/batch"
HELLO = {"input": "1 chunks, then stop"}
JSON_HEAD = "Host: a\r\nContent-Type: application/json\r\n"

Start = Callable[..., RunningServer]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Generator[Start, None, None]:
    faulty.register(monkeypatch)
    with ExitStack() as stack:

        def started(max_mib: int, caller_mib: int = 0, **server: tuple[str, ...]) -> RunningServer:
            limits = LimitSettings(max_memory_mib=max_mib, caller_memory_mib=caller_mib)
            settings = Settings(
                model=ModelSettings(source="faulty"), limits=limits, server=ServerSettings(**server)
            )
            running = stack.enter_context(start_server(settings, send_buffer_bytes=32 * 1024))
            wait_until(lambda: not running.state.hindrances)
            return running

        yield started


def held_by(server: RunningServer) -> int:
    return server.state.guards.memory.num_bytes


def post(server: RunningServer, path: str, key: str = "", **body: object) -> httpx.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx.post(server.base_url + path, json=body, headers=headers, timeout=60)


@contextmanager
def slow_body(
    server: RunningServer, num_bytes: int, key: str = ""
) -> Generator[socket.socket, None, None]:
    """Send a body that does not end, in one chunk, for as long as the block lasts."""
    head = f"POST {SPEECH} HTTP/1.1\r\n{JSON_HEAD}Transfer-Encoding: chunked\r\n"
    head += f"Authorization: Bearer {key}\r\n" if key else ""
    with raw.dialled(server) as connection:
        connection.sendall(f"{head}\r\n{num_bytes:x}\r\n".encode())
        raw.pour(connection, b'"' + b"x" * (num_bytes - 1))
        yield connection


def test_of_many_slow_bodies_only_so_many_are_held(start: Start) -> None:
    server = start(8)
    with ExitStack() as stack:
        for number in range(1, 9):
            stack.enter_context(slow_body(server, MIB))
            wait_until(lambda number=number: held_by(server) == number * MIB)  # type: ignore[misc]
        for _ in range(52):
            refused = stack.enter_context(slow_body(server, 64 * 1024))
            answer = raw.head(refused)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 1\r\n" in answer.lower()
        assert held_by(server) == 8 * MIB
        metrics = httpx.get(f"{server.base_url}/metrics").text
        assert f"antiphon_memory_reserved_bytes {8 * MIB:e}" in metrics
        declared = post(server, SPEECH, **HELLO)
        assert error_of(declared, 503)["code"] == "overloaded"
    wait_until(lambda: held_by(server) == 0)
    assert post(server, SPEECH, **HELLO).status_code == 200
    wait_until(lambda: held_by(server) == 0)


def test_one_caller_has_its_share_and_others_have_theirs(start: Start) -> None:
    server = start(8, 2, api_keys=("one", "two"))
    with slow_body(server, 2 * MIB, "one"):
        wait_until(lambda: held_by(server) == 2 * MIB)
        refused = post(server, SPEECH, "one", **HELLO)
        assert error_of(refused, 429)["code"] == "rate_limit_exceeded"
        assert int(refused.headers["retry-after"]) >= 1
        assert post(server, SPEECH, "two", **HELLO).status_code == 200
    wait_until(lambda: held_by(server) == 0)
    assert post(server, SPEECH, "one", **HELLO).status_code == 200


def test_a_body_that_could_never_fit_is_told_so(start: Start) -> None:
    server = start(4, 1)
    refused = post(server, SPEECH, input="x" * MIB)
    assert "limits.caller_memory_mib" in error_of(refused, 413)["message"]
    with slow_body(server, MIB + 1) as connection:
        assert raw.head(connection).startswith(b"HTTP/1.1 413 ")


def chunks(num_bytes: int) -> str:
    return f"{num_bytes // CHUNK_BYTES} chunks, then stop"


WHOLE: dict[str, Any] = {"stream": False, "response_format": "pcm"}


@pytest.mark.parametrize("kind", ["file", "batch"])
def test_a_whole_answer_counts_while_it_is_collected(start: Start, kind: str) -> None:
    server = start(4)

    def ask(num_bytes: int) -> httpx.Response:
        if kind == "file":
            return post(server, SPEECH, **WHOLE, input=chunks(num_bytes))
        items = [{"input": chunks(num_bytes // 4)}] * 4
        return post(server, BATCH, items=items, response_format="pcm")

    error = error_of(ask(6 * MIB), 413)
    assert "limits.max_memory_mib" in error["message"]
    with slow_body(server, 3 * MIB):
        wait_until(lambda: held_by(server) == 3 * MIB)
        refused = ask(2 * MIB)
        assert error_of(refused, 503)["code"] == "overloaded"
        assert int(refused.headers["retry-after"]) >= 1
        wait_until(lambda: server.num_open == 0)
        streamed = post(server, SPEECH, input=chunks(6 * MIB), response_format="pcm")
        assert len(streamed.content) == 6 * MIB // CHUNK_BYTES * CHUNK_BYTES, "streams are not held"
    wait_until(lambda: held_by(server) == 0)
    assert ask(2 * MIB).status_code == 200
    wait_until(lambda: held_by(server) == 0)


def test_answers_that_nobody_reads_are_bounded(start: Start) -> None:
    server = start(8)
    body = json.dumps({"input": chunks(3 * MIB), **WHOLE}).encode()
    request = f"POST {SPEECH} HTTP/1.1\r\n{JSON_HEAD}Content-Length: {len(body)}\r\n\r\n".encode()
    with ExitStack() as stack:
        statuses = []
        for _ in range(10):
            connection = stack.enter_context(socket.socket())
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
            connection.settimeout(30)
            connection.connect(("127.0.0.1", server.port))
            connection.sendall(request + body)
            statuses.append(raw.head(connection).split()[1])
        assert statuses == [b"200"] * 2 + [b"503"] * 8
        assert 6 * MIB - 2 * CHUNK_BYTES <= held_by(server) <= 8 * MIB
    wait_until(lambda: held_by(server) == 0)
    assert post(server, SPEECH, **HELLO).status_code == 200


def messages(talk: Client) -> list[dict[str, Any]]:
    return [each for each in talk.until("session.done") if isinstance(each, dict)]


def test_whole_files_on_a_websocket_count(start: Start) -> None:
    server = start(2)
    with connected(server, "/v1/audio/speech/stream") as talk:
        talk.send("session.config", response_format="pcm", stream_audio=False)
        talk.send("input.text", text=chunks(3 * MIB))
        talk.send("input.done")
        (error,) = [each for each in messages(talk) if each["type"] == "error"]
        assert error["error"]["code"] == "request_too_large"
        wait_until(lambda: held_by(server) < 64 * 1024)  # the configuration is kept
    wait_until(lambda: held_by(server) == 0)


@pytest.mark.parametrize("is_fragmented", [False, True])
def test_messages_that_websockets_do_not_end_count(start: Start, is_fragmented: bool) -> None:
    server = start(4)
    part = 125 if is_fragmented else 2 * MIB
    num_parts = 2000 if is_fragmented else 1
    size = part * num_parts
    head = bytes([1 if is_fragmented else 0x81])
    if is_fragmented:
        continued = raw.frame(raw.CONTINUATION, bytes(part), is_last=False)
        sent = head + b"\x80" + bytes(4) + continued * num_parts
    else:  # a byte of it does not come
        sent = head + b"\xff" + (size + 1).to_bytes(8) + bytes(4) + bytes(size)
    with ExitStack() as stack:
        for number in range(1, 4 * MIB // size + 1):
            connection = stack.enter_context(raw.upgraded(server))
            connection.sendall(sent)
            wait_until(lambda number=number: held_by(server) == number * size)  # type: ignore[misc]
        connection = stack.enter_context(raw.upgraded(server))
        raw.pour(connection, sent)
        assert (1013).to_bytes(2) in raw.rest(connection)
        wait_until(lambda: held_by(server) == 4 * MIB // size * size)
    wait_until(lambda: held_by(server) == 0)


def test_messages_that_were_followed_count_no_more(start: Start) -> None:
    server = start(1)
    with connected(server, "/v1/audio/speech/stream") as talk:
        for _ in range(8):  # each takes more than half of all
            talk.send("unknown", text="x" * (MIB // 5))
            (error,) = talk.until("error")
            assert isinstance(error, dict)
            assert "session.config" in error["error"]["message"]
        talk.send("session.config", response_format="pcm")
        talk.send("input.text", **{"text": HELLO["input"]})
        talk.send("input.done")
        assert talk.until("session.done")
        wait_until(lambda: held_by(server) < 64 * 1024)
    wait_until(lambda: held_by(server) == 0)
