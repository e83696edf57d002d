"""What clients do to connections: floods, silence, bodies that nobody asked for, deaf ears."""

import asyncio
import json
import re
import resource
import socket
from collections.abc import Generator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame

from antiphon.api.transport import connection as connection_module
from antiphon.api.transport import websocket_protocol
from antiphon.api.transport.connection import MIN_SENT_BYTES, Connection, Phase, Timeouts
from antiphon.api.transport.connections import Connections, Cut, Membership, max_open_connections
from antiphon.api.transport.feed_queue import FeedQueue
from antiphon.api.transport.httptools_protocol import MAX_BODY_PIECE_BYTES, MAX_HEADERS
from antiphon.api.transport.websocket_protocol import BoundedWebSocket
from antiphon.config import LimitSettings, ModelSettings, ServerSettings, Settings
from antiphon.telemetry.metrics import Metrics
from tests import faulty, raw
from tests.servers import TOY, RunningServer, start_server, wait_until
from tests.sockets import connected

URL = "/v1/audio/speech"
ENDLESS = {"input": "1000000 chunks, then stop", "response_format": "pcm"}
JSON_HEAD = "Host: a\r\nContent-Type: application/json\r\n"


def metric(server: RunningServer, name: str, **labels: str) -> float:
    registry = server.state.guards.metrics.registry
    return registry.get_sample_value(name, labels) or 0.0


# Frames that carry nothing


@pytest.mark.parametrize("opcode", [raw.PING, raw.PONG])
def test_a_flood_of_control_frames_ends_the_connection(server: RunningServer, opcode: int) -> None:
    with raw.upgraded(server) as connection:
        raw.pour(connection, raw.frame(opcode) * 50_000)
        received = raw.rest(connection)
    allowed = websocket_protocol.BURST_CONTROL_FRAMES
    assert received.count(bytes([0x80 | raw.PONG, 0])) <= allowed * 2, "no more are answered"
    assert received.endswith(b"too many pings or pongs")
    assert received.find(bytes([0x80 | raw.CLOSE])) >= 0
    wait_until(lambda: server.state.guards.connections.num_open["websocket"] == 0)


def test_a_server_stops_while_a_client_is_closing(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_by_client = BoundedWebSocket.handle_close
    stopped: list[bool] = []

    def handle_close(self: BoundedWebSocket, event: Frame) -> None:
        closed_by_client(self, event)
        stopped.append(False)
        self.shutdown()
        stopped[-1] = True

    monkeypatch.setattr(BoundedWebSocket, "handle_close", handle_close)
    with raw.upgraded(server) as connection:
        connection.sendall(raw.frame(raw.CLOSE, b"\x03\xe8"))
        assert raw.rest(connection) == bytes([0x80 | raw.CLOSE, 2, 3, 0xE8])
    assert stopped == [True]
    wait_until(lambda: server.state.guards.connections.num_open["websocket"] == 0)


def test_a_message_of_very_many_fragments_ends_the_connection(server: RunningServer) -> None:
    with raw.upgraded(server) as connection:
        first = raw.frame(raw.TEXT, is_last=False)
        raw.pour(connection, first + raw.frame(raw.CONTINUATION, is_last=False) * 50_000)
        assert raw.rest(connection).endswith(b"too many fragments")
    wait_until(lambda: server.state.guards.connections.num_open["websocket"] == 0)


def test_pings_and_fragments_as_clients_send_them_are_welcome(server: RunningServer) -> None:
    with connected(server, raw.SPEECH_SOCKET) as talk:
        for _ in range(websocket_protocol.BURST_CONTROL_FRAMES // 2):
            talk.connection.ping()
        talk.connection.send(iter(json.dumps({"type": "session.config"})))
        talk.send("input.text", text="Hello.")
        talk.send("input.done")
        assert talk.until("session.done")


# Handshakes and requests that cannot be read


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("".join(f"X-{number}: a\r\n" for number in range(140)), 431),
        (f"X-Long: {'a' * 9000}\r\n", 431),
        ("Content-Length: 5\r\n", 400),
        ("Transfer-Encoding: chunked\r\n", 400),
    ],
    ids=["many", "long", "body", "chunks"],
)
def test_a_handshake_that_fails_is_answered_and_closed(
    server: RunningServer, headers: str, status: int
) -> None:
    with raw.dialled(server) as connection:
        connection.sendall(raw.handshake(more_headers=headers))
        connection.shutdown(socket.SHUT_WR)
        head, _, body = raw.rest(connection).partition(b"\r\n\r\n")
    assert head.startswith(f"HTTP/1.1 {status} ".encode())
    assert json.loads(body)["error"]["type"] == "invalid_request_error"
    wait_until(lambda: server.state.guards.connections.num_open["websocket"] == 0)


def test_a_request_with_very_many_headers_is_told_so(server: RunningServer) -> None:
    for num_headers, status in ((MAX_HEADERS, b"200"), (MAX_HEADERS + 1, b"431")):
        with raw.dialled(server) as connection:
            more = "X: y\r\n" * (num_headers - 2)
            request = f"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{more}\r\n"
            connection.sendall(request.encode())
            assert raw.head(connection).startswith(b"HTTP/1.1 " + status)


def test_an_offer_of_http2_keeps_its_body(server: RunningServer) -> None:
    body = b'{"input": "Hello there.", "response_format": "pcm", "seed": 1, "stream": false}'
    offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n"
    request = f"POST {URL} HTTP/1.1\r\n{JSON_HEAD}{offer}Content-Length: {len(body)}\r\n\r\n"
    answers = []  # whole ones: a stream is cut into pieces as time passes
    for sent in (request.encode() + body, request.replace(offer, "").encode() + body):
        with raw.dialled(server) as connection:
            connection.sendall(
                sent + b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
            )
            answers.append(raw.rest(connection))
    offered, plain = (re.sub(rb"\r\n(x-request-id|date): [^\r]*", b"", each) for each in answers)
    assert offered == plain
    assert offered.count(b"HTTP/1.1 200 OK") == 2


def test_a_request_for_a_tunnel_is_refused(server: RunningServer) -> None:
    with raw.dialled(server) as connection:
        connection.sendall(b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nConnection: close\r\n\r\n")
        assert raw.head(connection).startswith(b"HTTP/1.1 4")


@pytest.mark.parametrize("http", ["httptools", "h11"])
def test_requests_that_are_sent_ahead_are_answered_in_order(http: str) -> None:
    num_requests = 500
    with start_server(TOY, http=http) as server, raw.dialled(server) as connection:
        for number in range(num_requests):
            last = "Connection: close\r\n" if number == num_requests - 1 else ""
            request = f"GET /health HTTP/1.1\r\nHost: a\r\nX-Request-Id: r{number}\r\n{last}\r\n"
            connection.sendall(request.encode())
        received = raw.rest(connection)
    ids = re.findall(rb"x-request-id: r(\d+)", received)
    assert [int(id) for id in ids] == list(range(num_requests))


# Answers to clients that are still sending


@pytest.mark.parametrize(
    ("path", "num_mib", "status"), [("/nowhere", 8, 404), ("/health", 8, 405), (URL, 24, 413)]
)
@pytest.mark.parametrize("is_kept", [False, True])
def test_an_answer_reaches_a_client_that_is_still_sending(
    server: RunningServer, path: str, num_mib: int, status: int, is_kept: bool
) -> None:
    assert status_of_upload(server, path, num_mib, is_kept) == status
    wait_until(lambda: metric(server, "antiphon_http_requests_open") == 0)


def test_whoever_has_no_key_is_told_so_however_much_it_sends() -> None:
    settings = Settings(model=TOY.model, server=ServerSettings(api_keys=("sesame",)))
    with start_server(settings) as server:
        assert status_of_upload(server, URL, 8, is_kept=True) == 401


def status_of_upload(server: RunningServer, path: str, num_mib: int, is_kept: bool) -> int:
    """Send a whole request before anything of its answer is read."""
    ending = "" if is_kept else "Connection: close\r\n"
    length = f"Content-Length: {num_mib * 2**20}\r\n"
    with raw.dialled(server) as connection:
        connection.sendall(f"POST {path} HTTP/1.1\r\n{JSON_HEAD}{ending}{length}\r\n".encode())
        for _ in range(num_mib):
            connection.sendall(bytes(2**20))
        return int(raw.head(connection).split()[1])


@pytest.mark.parametrize(
    "num_bytes", [MAX_BODY_PIECE_BYTES, 4 * MAX_BODY_PIECE_BYTES, 4 * MAX_BODY_PIECE_BYTES + 9]
)
def test_a_kept_connection_goes_on_after_a_body_that_was_not_wanted(
    server: RunningServer, num_bytes: int
) -> None:
    body = bytes(num_bytes)
    length = f"Content-Length: {len(body)}\r\n"
    with raw.dialled(server) as connection:
        connection.sendall(f"POST /nowhere HTTP/1.1\r\n{JSON_HEAD}{length}\r\n".encode())
        head = raw.head(connection)
        assert head.startswith(b"HTTP/1.1 404")
        connection.recv(int(re.findall(rb"content-length: (\d+)", head)[0]), socket.MSG_WAITALL)
        connection.sendall(body)
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert raw.head(connection).startswith(b"HTTP/1.1 200")


def test_a_kept_connection_is_not_told_that_its_headers_are_late() -> None:
    settings = Settings(model=TOY.model, limits=LimitSettings(header_timeout_s=0.2))
    with start_server(settings, keep_alive_s=1) as server, raw.dialled(server) as connection:
        connection.sendall(b"GET /v1/test HTTP/1.1\r\nHost: a\r\n\r\n")
        assert raw.rest(connection).count(b"HTTP/1.1") == 1, "it is closed without a word"
        # As soon as it is spoken on, it is waited for no longer than any other.
        with raw.dialled(server) as late:
            late.sendall(b"GET /v1/test HTTP/1.1\r\nHost: a\r\n\r\n")
            raw.head(late)
            late.sendall(b"GET")
            assert b"HTTP/1.1 408" in raw.rest(late)


@pytest.mark.parametrize("path", ["/nowhere", URL])
def test_a_body_without_end_is_not_read_for_ever(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(connection_module, "MAX_LINGER_BYTES", 1024 * 1024)
    before = metric(server, "antiphon_connections_cut_total", reason="lingering")
    with raw.dialled(server) as connection:
        connection.sendall(
            f"POST {path} HTTP/1.1\r\n{JSON_HEAD}Content-Length: {10**12}\r\n\r\n".encode()
        )
        endless = iter(lambda: connection.sendall(bytes(65536)), 0)
        with pytest.raises(ConnectionError):
            list(endless)
    assert metric(server, "antiphon_connections_cut_total", reason="lingering") == before + 1


def test_a_body_that_stops_midway_after_its_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connection_module, "LINGER_S", 0.2)
    with start_server(TOY) as server, raw.dialled(server) as connection:
        connection.sendall(
            f"POST /nowhere HTTP/1.1\r\n{JSON_HEAD}Content-Length: 9\r\n\r\nx".encode()
        )
        assert raw.rest(connection).startswith(b"HTTP/1.1 404")


# Who makes room


def test_idle_connections_make_room_and_busy_ones_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty.register(monkeypatch)
    limits = LimitSettings(idle_connections_per_address=16)
    settings = Settings(model=ModelSettings(source="faulty"), limits=limits)
    with start_server(settings) as server, ExitStack() as stack:
        busy = stack.enter_context(httpx.stream("POST", server.base_url + URL, json=ENDLESS))
        pieces = busy.iter_raw(1000)
        next(pieces)
        silent = [stack.enter_context(raw.dialled(server)) for _ in range(60)]
        for path in ("/health", "/ready", "/metrics", "/v1/models"):
            assert httpx.get(server.base_url + path).status_code == 200
        wait_until(lambda: metric(server, "antiphon_connections_open") <= 17)
        assert all(raw.rest(each) == b"" for each in silent[:40]), "the oldest were cut"
        assert len(next(pieces)) == 1000


@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["open", "busy", "idle", "close"]))))
def test_no_busy_connection_is_ever_cut(steps: list[tuple[int, str]]) -> None:
    limits = LimitSettings(max_idle_connections=16, idle_connections_per_address=16)
    connections = Connections(limits, Metrics())
    members: dict[int, Membership] = {}
    cut: set[int] = set()
    busy: set[int] = set()
    for number, step in steps:
        if step == "open" and number not in members:
            address = f"192.0.2.{number % 2}"
            members[number] = connections.add(address, noting(cut, number))
        elif number in members and number not in cut:
            if step == "busy":
                connections.busy(members[number])
                busy.add(number)
            elif step == "idle":
                connections.idle(members[number])
                busy.discard(number)
            elif step == "close":
                connections.remove(members.pop(number))
                busy.discard(number)
        assert not cut & busy
        assert len(connections._idle) == len(members.keys() - busy - cut) <= 16
        assert len(connections) == len(members)


def noting(cut: set[int], number: int) -> Cut:
    return lambda reason: cut.add(number)


def test_as_many_files_may_be_open_as_the_system_allows(caplog: pytest.LogCaptureFixture) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024), hard))
        left = max_open_connections(LimitSettings(max_idle_connections=10**9))
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
        assert left > 0
        assert "open files are allowed" in caplog.text or hard == resource.RLIM_INFINITY
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# Clients that do not read


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Generator[RunningServer, None, None]:
    """A server that waits for readers for a fifth of a second."""
    faulty.register(monkeypatch)
    limits = LimitSettings(write_timeout_s=0.2)
    settings = Settings(model=ModelSettings(source="faulty"), limits=limits)
    with start_server(settings, send_buffer_bytes=32 * 1024) as running:
        yield running


@pytest.mark.parametrize("more", [{}, {"stream_format": "sse"}])
def test_whoever_does_not_read_on_loses_the_place(
    hasty: RunningServer, more: dict[str, Any]
) -> None:
    body = json.dumps({**ENDLESS, **more}).encode()
    request = f"POST {URL} HTTP/1.1\r\n{JSON_HEAD}Content-Length: {len(body)}\r\n\r\n".encode()
    with raw.dialled(hasty) as connection:
        connection.sendall(request + body)
        wait_until(lambda: metric(hasty, "antiphon_connections_cut_total", reason="unread") == 1)
        wait_until(lambda: hasty.num_open == 0)
        wait_until(lambda: hasty.state.guards.connections.num_open["http"] == 0)
        assert not raw.rest(connection).endswith(b"0\r\n\r\n"), "it does not look complete"


def test_whoever_does_not_read_on_a_websocket_loses_the_place(hasty: RunningServer) -> None:
    with raw.upgraded(hasty) as connection:
        for message in (
            {"type": "session.config", "response_format": "pcm", "stream_audio": True},
            {"type": "input.text", "text": ENDLESS["input"]},
            {"type": "input.done"},
        ):
            connection.sendall(raw.frame(raw.TEXT, json.dumps(message).encode()))
        wait_until(lambda: metric(hasty, "antiphon_connections_cut_total", reason="unread") == 1)
        wait_until(lambda: hasty.num_open == 0)
        wait_until(lambda: hasty.state.guards.connections.num_open["websocket"] == 0)


class _Pipe(asyncio.Transport):
    """A transport whose reader takes what the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.num_waiting = 0
        self.is_aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.num_waiting += len(data)

    def get_write_buffer_size(self) -> int:
        return self.num_waiting

    def abort(self) -> None:
        self.is_aborted = True


class _Busy(asyncio.Protocol):
    slice_bytes = 1
    num_body_bytes = 0
    phase = Phase.BUSY
    takes_more = True


@pytest.mark.parametrize(
    ("num_read", "is_cut"), [(0, True), (MIN_SENT_BYTES - 1, True), (MIN_SENT_BYTES, False)]
)
def test_slow_readers_stay_and_deaf_ones_go(num_read: int, is_cut: bool) -> None:
    async def check() -> bool:
        metrics, limits = Metrics(), LimitSettings()
        connections = Connections(limits, metrics)
        timeouts = Timeouts(connections, metrics, 10, write_timeout_s=1e9, queue=FeedQueue())
        connection, pipe = Connection(_Busy(), timeouts), _Pipe()
        connection.connection_made(pipe)
        connection.write(bytes(100_000))
        assert connection._write_check is not None
        pipe.num_waiting -= num_read
        connection.write(bytes(50))  # a ping, which says nothing of the reader
        callback, args = connection._write_check._callback, connection._write_check._args  # type: ignore[attr-defined]
        callback(*args)
        connection.connection_lost(None)
        return pipe.is_aborted

    assert asyncio.run(check()) == is_cut
