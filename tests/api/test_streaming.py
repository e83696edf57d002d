"""What a stream does when its source fails, its listener leaves, is slow, or is one of many."""

import asyncio
import itertools
import json
import socket
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, Settings
from antiphon.engine.scheduler import Scheduler
from antiphon.fabric.local import LocalFabric
from antiphon.stages.build import EngineStage
from tests import faulty
from tests.decoding import audio_of, events
from tests.servers import RunningServer, start_server, wait_until

PATH = "/v1/audio/speech"
MODES: list[dict[str, Any]] = [{}, {"stream": True}, {"stream": False}]
MODE_NAMES = ["raw", "events", "whole"]
CHUNK_BYTES = faulty.CHUNK_SAMPLES * 2
LAST_HTTP_CHUNK = b"0\r\n\r\n"
SEND_BUFFER_BYTES = 32 * 1024  # as the faulty server's fixture has it
ENDLESS = 1_000_000

_seeds = itertools.count(1000)


def opened(server: RunningServer, body: dict[str, Any], *, read_buffer: int = 0) -> socket.socket:
    """Send a request over a socket of its own and read nothing yet."""
    content = json.dumps({"response_format": "pcm", **body}).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(content)}\r\n\r\n"
    )
    connection = socket.socket()
    if read_buffer:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, read_buffer)
    connection.connect(("127.0.0.1", server.port))
    connection.settimeout(30)
    connection.sendall(head.encode() + content)
    return connection


def read_to_the_end(connection: socket.socket) -> bytes:
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.fixture(params=["httptools", "h11"])
def any_http(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Generator[RunningServer, None, None]:
    """A faulty server on each of the HTTP implementations that uvicorn may pick."""
    faulty.register(monkeypatch)
    settings = Settings(model=ModelSettings(source="faulty"))
    with start_server(settings, http=request.param) as running:
        yield running


@pytest.mark.parametrize("ending", ["engine error", "bug"])
@pytest.mark.parametrize("mode", MODES[:2], ids=MODE_NAMES[:2])
def test_a_failure_midway_breaks_the_connection(
    any_http: RunningServer, mode: dict[str, bool], ending: str
) -> None:
    complete = read_to_the_end_of_kept_alive(any_http, {"input": "3 chunks, then stop", **mode})
    broken = read_to_the_end(opened(any_http, {"input": f"3 chunks, then {ending}", **mode}))

    assert complete.endswith(LAST_HTTP_CHUNK)
    assert broken.startswith(b"HTTP/1.1 200")
    assert len(broken) > 3 * CHUNK_BYTES, "what was made before is delivered"
    assert not broken.endswith(LAST_HTTP_CHUNK)


def read_to_the_end_of_kept_alive(server: RunningServer, body: dict[str, Any]) -> bytes:
    received = b""
    with opened(server, body) as connection:
        while not received.endswith(LAST_HTTP_CHUNK):
            received += connection.recv(65536)
    return received


@pytest.mark.parametrize("mode", MODES[:2], ids=MODE_NAMES[:2])
def test_clients_notice_a_failure_midway(
    faulty_client: httpx.Client, mode: dict[str, bool]
) -> None:
    body = {"input": "3 chunks, then bug", **mode}
    with faulty_client.stream("POST", PATH, json=body) as response:
        assert response.status_code == 200
        with pytest.raises(httpx.RemoteProtocolError):
            response.read()


@pytest.mark.parametrize(
    ("ending", "code"), [("engine error", "engine_error"), ("bug", "internal_error")]
)
def test_events_tell_of_the_failure_before_they_break(
    faulty_server: RunningServer, ending: str, code: str
) -> None:
    body = {"input": f"2 chunks, then {ending}", "stream_format": "sse"}
    received: list[str] = []
    with (
        httpx.stream("POST", faulty_server.base_url + PATH, json=body) as response,
        pytest.raises(httpx.RemoteProtocolError),
    ):
        received.extend(response.iter_text())  # keeps what came before it broke
    text = "".join(received)
    assert "secret" not in text
    *deltas, error = events(text)
    assert {delta["type"] for delta in deltas} == {"speech.audio.delta"}
    assert error["type"] == "error"
    assert set(error["error"]) == {"message", "type", "param", "code"}
    assert (error["error"]["type"], error["error"]["code"]) == ("server_error", code)


@pytest.mark.parametrize("mode", MODES, ids=MODE_NAMES)
def test_a_listener_who_leaves_before_the_first_byte_stops_the_work(
    faulty_server: RunningServer, mode: dict[str, bool]
) -> None:
    tasks, seed = faulty_server.tasks(), next(_seeds)
    body = {"input": "0 chunks, then silence", "seed": seed, **mode}
    with opened(faulty_server, body):
        wait_until(lambda: faulty.PULLED[seed] > 3)
        assert faulty_server.num_open == 1
    _assert_all_is_free(faulty_server, tasks)


@pytest.mark.parametrize("format", ["pcm", "mp3"])
@pytest.mark.parametrize("mode", MODES, ids=MODE_NAMES)
def test_a_listener_who_leaves_midway_stops_the_work(
    faulty_server: RunningServer, mode: dict[str, bool], format: str
) -> None:
    tasks, seed = faulty_server.tasks(), next(_seeds)
    body = {"input": f"{ENDLESS} chunks, then stop", "seed": seed, **mode}
    with opened(faulty_server, {**body, "response_format": format}) as connection:
        if "stream" not in mode or mode["stream"]:
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        wait_until(lambda: faulty.PULLED[seed] > 3)
    _assert_all_is_free(faulty_server, tasks)


def _assert_all_is_free(server: RunningServer, tasks: set["asyncio.Task[Any]"]) -> None:
    wait_until(lambda: server.num_open == 0)
    wait_until(lambda: server.tasks() <= tasks)


@pytest.mark.parametrize("mode", MODES, ids=MODE_NAMES)
def test_listeners_who_leave_give_their_slots_back(mode: dict[str, bool]) -> None:
    settings = Settings(model=ModelSettings(source="toy", max_slots=2))
    text = "A text that goes on and on. " * 200
    with start_server(settings) as server:
        scheduler = _scheduler(server)
        tasks = server.tasks()
        connections = [opened(server, {"input": text, **mode}) for _ in range(5)]
        wait_until(lambda: _num_open(server) >= 5)  # some of them wait for a slot
        for connection in connections:
            connection.close()
        _assert_all_is_free(server, tasks)
        wait_until(lambda: _num_open(server) == 0)
        scheduler.check_integrity()
        again = httpx.post(server.base_url + PATH, json={"input": "Still here."})
        assert again.status_code == 200


def test_a_server_that_stops_breaks_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty.register(monkeypatch)
    with ThreadPoolExecutor(1) as listener:
        with start_server(Settings(model=ModelSettings(source="faulty"))) as server:
            (model,) = server.state.speech.models.values()
            connection = opened(server, {"input": f"{ENDLESS} chunks, then stop"})
            begun = connection.recv(65536)  # with the head the response has begun
            received = listener.submit(read_to_the_end, connection)
            assert model.fabric.num_open == 1
        assert model.fabric.num_open == 0
        assert begun.startswith(b"HTTP/1.1 200")
        assert not received.result().endswith(LAST_HTTP_CHUNK)


def _num_open(server: RunningServer) -> int:
    """Return how many requests the engine holds, with a slot or without."""
    (model,) = server.state.speech.models.values()
    stats = [each for *_, each in model.engine_stats()]
    return sum(each.requests_running + each.requests_waiting for each in stats)


def _scheduler(server: RunningServer) -> Scheduler:
    (model,) = server.state.speech.models.values()
    assert isinstance(model.fabric, LocalFabric)
    (stage,) = (model.fabric._stages[each] for each in model.handles)
    assert isinstance(stage, EngineStage)
    return stage._engine._core.scheduler


def test_a_slow_reader_slows_the_model_down(
    faulty_server: RunningServer, faulty_client: httpx.Client
) -> None:
    num_chunks, seed = 200, next(_seeds)
    body = {"input": f"{num_chunks} chunks, then stop", "seed": seed}
    # Linux doubles what is asked for, on both sides; asyncio holds 64 KiB and a chunk more.
    buffered_bytes = 4 * SEND_BUFFER_BYTES + 64 * 1024
    max_ahead = buffered_bytes // CHUNK_BYTES + 3

    with opened(faulty_server, body, read_buffer=SEND_BUFFER_BYTES) as connection:
        received = b""
        while len(received) < num_chunks * CHUNK_BYTES:
            # Others are served to their end meanwhile: time enough to run ahead.
            faulty_client.post(PATH, json={"input": "20 chunks, then stop"})
            assert faulty.PULLED[seed] <= len(received) // CHUNK_BYTES + max_ahead
            wanted_bytes = len(received) + 40 * CHUNK_BYTES
            while len(received) < min(wanted_bytes, num_chunks * CHUNK_BYTES):
                received += connection.recv(65536)
    assert faulty.PULLED[seed] == num_chunks


def test_alone_and_in_a_crowd_the_bytes_are_the_same(server: RunningServer) -> None:
    formats = ["pcm", "mp3", "opus", "aac", "flac", "wav"]
    bodies: list[dict[str, Any]] = [
        {
            "input": f"Number {index}. " * (1 + index % 3),
            "seed": index,
            "response_format": formats[index % len(formats)],
            "speed": (1.0, 1.3)[index % 2],
            **MODES[index % len(MODES)],
        }
        for index in range(32)
    ]

    def post(body: dict[str, Any]) -> bytes:
        response = httpx.post(server.base_url + PATH, json=body, timeout=60)
        assert response.status_code == 200
        # How audio is cut into events depends on time; the audio does not.
        return audio_of(events(response.text)) if body.get("stream") else response.content

    alone = [post(body) for body in bodies]
    with ThreadPoolExecutor(len(bodies)) as pool:
        crowd = list(pool.map(post, bodies))
    assert [len(each) for each in crowd] == [len(each) for each in alone]
    assert crowd == alone
