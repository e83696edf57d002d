"""What requests hold is counted and bounded, and is free again however they end."""

import asyncio
import json
import socket
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any, cast

import httpx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from antiphon.api.encoding import FileEncoding
from antiphon.api.middleware import memory_budget
from antiphon.api.middleware.body import BodyMiddleware
from antiphon.api.middleware.keys import KeyRing
from antiphon.api.middleware.limit_table import LocalLimitTable
from antiphon.api.middleware.memory_budget import REFUSALS, MemoryBudget
from antiphon.api.options import FamilyOptions
from antiphon.audio.encode import AudioFormat
from antiphon.concurrency import Workers
from antiphon.config import LimitSettings, ModelSettings, ServerSettings, Settings
from antiphon.errors import (
    MemoryFullError,
    MemoryShareError,
    RequestTooLargeError,
    UnavailableError,
)
from antiphon.types import AudioChunk, Ended, Samples, SpeechStream, Usage
from antiphon.voices.recordings import Recordings
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


# The budget itself


class _Silence:
    """Stands for recordings of one second each."""

    async def load(self, recording: str | bytes, sample_rate_hz: int) -> Samples:
        return np.zeros(sample_rate_hz, np.float32)


def test_decoded_recordings_and_their_copies_count() -> None:
    budget = MemoryBudget(LimitSettings(), lambda num_bytes: None, table=LocalLimitTable())
    options = FamilyOptions({}, {"ref_audio": b"", "other": b""})
    with budget.lease("a caller") as lease:
        with memory_budget.use_lease(lease):
            recordings = cast(Recordings, _Silence())
            asyncio.run(options.decoded(recordings, sample_rate_hz=24_000))
        assert budget.num_bytes == 2 * 2 * 4 * 24_000
    assert budget.num_bytes == 0


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(-3 * MIB, 3 * MIB))))
def test_never_more_is_held_than_is_allowed(turns: list[tuple[int, int]]) -> None:
    told: list[int] = []
    table = LocalLimitTable()
    limits = LimitSettings(max_memory_mib=8, caller_memory_mib=4)
    budget = MemoryBudget(limits, told.append, table=table)
    with ExitStack() as stack:
        leases = [stack.enter_context(budget.lease(f"caller {n % 3}")) for n in range(6)]
        for index, num_bytes in turns:
            lease, before = leases[index], budget.num_bytes
            if num_bytes < 0:
                lease.release(min(-num_bytes, lease.num_bytes))
            else:
                try:
                    lease.reserve(num_bytes)
                except REFUSALS:
                    assert budget.num_bytes == before, "what is refused is not held"
                else:
                    assert budget.num_bytes == before + num_bytes
            held = [each.num_bytes for each in leases]
            assert sum(held) == budget.num_bytes <= 8 * MIB
            assert all(held[n] + held[n + 3] <= 4 * MIB for n in range(3))
            assert told[-1:] in ([], [budget.num_bytes])
    assert budget.num_bytes == 0
    assert not len(table), "callers without requests are not remembered"


def test_each_refusal_says_what_would_help() -> None:
    budget = MemoryBudget(LimitSettings(max_memory_mib=3, caller_memory_mib=2))
    with budget.lease("a") as first, budget.lease("a") as second, budget.lease("b") as other:
        with pytest.raises(RequestTooLargeError, match=r"limits\.caller_memory_mib"):
            first.reserve(2 * MIB + 1)
        first.reserve(2 * MIB)
        with pytest.raises(MemoryShareError) as refused:
            second.reserve(1)
        assert refused.value.retry_after_s
        other.reserve(MIB)
        with pytest.raises(MemoryFullError) as full:
            other.reserve(1)
        assert full.value.retry_after_s
        first.close()
        first.reserve(MIB)  # what outlives its request counts no more
        assert budget.num_bytes == MIB
        second.reserve(2 * MIB)


def test_zero_is_no_limit() -> None:
    budget = MemoryBudget(LimitSettings(max_memory_mib=0, caller_memory_mib=0))
    with budget.lease("a") as lease:
        lease.reserve(1000 * 1024 * MIB)
        assert budget.num_bytes == 1000 * 1024 * MIB


def test_where_nobody_asks_nothing_is_counted() -> None:
    memory_budget.reserve(MIB)
    memory_budget.release(MIB)


# A request, however it ends


class _Client:
    """Sends a body of pieces, then listens, or leaves."""

    def __init__(self, *pieces: bytes, leaves: bool = False) -> None:
        self._pieces = list(pieces)
        self._leaves = leaves

    async def receive(self) -> Message:
        if not self._pieces:
            if not self._leaves:
                await asyncio.Event().wait()
            return {"type": "http.disconnect"}
        body = self._pieces.pop(0)
        more = bool(self._pieces) or self._leaves
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(self, message: Message) -> None:
        """Nobody looks at answers here."""


async def _read(receive: Receive) -> None:
    while (message := await receive())["type"] == "http.request" and message["more_body"]:
        pass
    if message["type"] == "http.disconnect":
        raise ConnectionError("the client has left")


@pytest.mark.parametrize("ending", ["completed", "refused", "left early", "left late", "failed"])
def test_all_is_free_again_however_a_request_ends(ending: str) -> None:
    held: list[int] = []
    table = LocalLimitTable()
    limits = LimitSettings(max_memory_mib=1, caller_memory_mib=0)
    budget = MemoryBudget(limits, held.append, table=table)
    collecting = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await _read(receive)
        await asyncio.create_task(collect())

    async def collect() -> None:
        memory_budget.reserve(1000)  # also in a task of its own
        collecting.set()
        if ending == "failed":
            raise RuntimeError("a bug")
        if ending == "left late":
            await asyncio.Event().wait()

    async def request() -> None:
        size = MIB if ending == "refused" else 1000
        client = _Client(bytes(size), bytes(size), leaves=ending == "left early")
        scope = {"type": "http", "headers": [], "client": ("192.0.2.1", 1)}
        middleware = BodyMiddleware(app, budget, KeyRing([]), max_bytes=2 * MIB, timeout_s=60)
        answering = asyncio.create_task(middleware(scope, client.receive, client.send))
        if ending == "left late":
            await collecting.wait()
            answering.cancel()
        (outcome,) = await asyncio.gather(answering, return_exceptions=True)
        wanted = {
            "completed": type(None),
            "refused": RequestTooLargeError,
            "left early": ConnectionError,
            "left late": asyncio.CancelledError,
            "failed": RuntimeError,
        }
        assert type(outcome) is wanted[ending]

    asyncio.run(request())
    most = {"refused": MIB, "left early": 2000}.get(ending, 5000)
    assert max(held) == most, "a body counts twice once it is complete"
    assert held[-1] == budget.num_bytes == 0
    assert not len(table)


# A server


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Generator[Start, None, None]:
    """Start a faulty server with so many MiB."""
    faulty.register(monkeypatch)
    with ExitStack() as stack:

        def started(max_mib: int, caller_mib: int = 0, **server: tuple[str, ...]) -> RunningServer:
            limits = LimitSettings(max_memory_mib=max_mib, caller_memory_mib=caller_mib)
            settings = Settings(
                model=ModelSettings(source="faulty"), limits=limits, server=ServerSettings(**server)
            )
            running = stack.enter_context(start_server(settings, send_buffer_bytes=32 * 1024))
            wait_until(lambda: running.state.is_ready)
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


@pytest.mark.parametrize("reason", ["a bug", "stopped"])
def test_a_file_that_fails_holds_nothing_while_its_request_goes_on(reason: str) -> None:
    async def events() -> SpeechStream:
        for _ in range(10):
            yield AudioChunk(np.zeros(1000, np.float32), 24_000)
        assert lease.num_bytes == 20_000
        if reason == "a bug":
            raise RuntimeError(reason)
        yield Ended("abort", Usage())

    async def collect() -> None:
        workers = Workers("encoder")
        try:
            with memory_budget.use_lease(lease):
                encoding = FileEncoding(AudioFormat.PCM, 24_000, workers, is_whole=True)
                await encoding.collected(events())
        finally:
            workers.close()

    with MemoryBudget(LimitSettings()).lease("a") as lease:
        with pytest.raises((RuntimeError, UnavailableError)):
            asyncio.run(collect())
        assert lease.num_bytes == 0


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
        assert held_by(server) == 0
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
            talk.send("session.config", response_format="pcm", unknown="x" * (MIB * 3 // 4))
        talk.send("input.text", **{"text": HELLO["input"]})
        talk.send("input.done")
        assert talk.until("session.done")
        wait_until(lambda: held_by(server) == 0)
