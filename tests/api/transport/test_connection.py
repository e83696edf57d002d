"""A connection is freed when it ends, probes come first, and nobody is cut who waits for us."""

import gc
import json
import random
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from itertools import accumulate

import httpx
import pytest

from antiphon.api.audio_outbox import AudioOutbox
from antiphon.api.transport.connection import Connection
from antiphon.api.transport.feed_queue import FeedQueue
from antiphon.api.transport.http_protocol import SLICE_BYTES
from antiphon.api.transport.httptools_protocol import MAX_BODY_PIECE_BYTES, HttptoolsProtocol
from antiphon.config import LimitSettings, Settings
from tests import raw
from tests.chaos.test_killed_clients import PHASES, kill
from tests.servers import DEADLINE_S, TOY, RunningServer, start_server, wait_until


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> None:
    """Leave what tests before have loaded out of collections: torch alone makes each take long."""
    gc.collect()
    gc.freeze()


@contextmanager
def uncollected() -> Generator[None, None, None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def num_alive() -> int:
    # isinstance would ask the objects, of which some (of torch, say) warn when they are asked.
    return sum(issubclass(type(each), Connection | AudioOutbox) for each in gc.get_objects())


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_an_ended_connection_is_freed_without_a_garbage_collection(
    server: RunningServer, phase: Callable[[random.Random, socket.socket], None]
) -> None:
    wait_until(lambda: server.state.guards.connections.num_open["http"] == 0)
    with uncollected():
        num_before = num_alive()
        for number in range(5):
            kill(server.port, phase, random.Random(number))
        wait_until(lambda: num_alive() <= num_before)


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_probes_do_not_wait_for_their_turn(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(FeedQueue, "_run_turn", lambda self: None)
    assert httpx.get(server.base_url + path).status_code == 200


REQUEST = b"GET /v1/models HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
MAX_IDLE = 16


@contextmanager
def held_feeding(server: RunningServer, asking: socket.socket) -> Generator[None, None, None]:
    """Send a request, which the server feeds to its protocol after the block."""
    run_turn, has_begun = FeedQueue._run_turn, threading.Event()
    with pytest.MonkeyPatch.context() as held:
        held.setattr(FeedQueue, "_run_turn", lambda self: has_begun.set())
        asking.sendall(REQUEST)
        assert has_begun.wait(DEADLINE_S)
        yield
    (queue,) = (each for each in gc.get_objects() if type(each) is FeedQueue and each._waiting)
    server.loop.call_soon_threadsafe(run_turn, queue)


def test_silent_connections_make_no_room_by_cutting_one_whose_request_waits() -> None:
    limits = LimitSettings(max_idle_connections=MAX_IDLE, idle_connections_per_address=MAX_IDLE)
    with start_server(Settings(model=TOY.model, limits=limits)) as server, ExitStack() as stack:
        asking = stack.enter_context(raw.dialled(server))
        with held_feeding(server, asking):
            silent = [stack.enter_context(raw.dialled(server)) for _ in range(2 * MAX_IDLE)]
            metrics = server.state.guards.metrics.registry
            name, labels = "antiphon_connections_cut_total", {"reason": "crowded"}
            wait_until(lambda: (metrics.get_sample_value(name, labels) or 0) >= MAX_IDLE)
        assert raw.head(asking).startswith(b"HTTP/1.1 200")
        assert all(raw.rest(each) == b"" for each in silent[:MAX_IDLE]), "the oldest were cut"


def test_a_request_that_waits_for_us_is_not_late() -> None:
    limits = LimitSettings(header_timeout_s=0.5)
    with start_server(Settings(model=TOY.model, limits=limits)) as server, ExitStack() as stack:
        asking = stack.enter_context(raw.dialled(server))
        with held_feeding(server, asking):
            silent = stack.enter_context(raw.dialled(server))
            assert raw.head(silent).startswith(b"HTTP/1.1 408")
        assert raw.head(asking).startswith(b"HTTP/1.1 200")


def test_half_a_request_waits_for_its_client_and_makes_room() -> None:
    limits = LimitSettings(max_idle_connections=MAX_IDLE, idle_connections_per_address=MAX_IDLE)
    with start_server(Settings(model=TOY.model, limits=limits)) as server, ExitStack() as stack:
        halves = [stack.enter_context(raw.dialled(server)) for _ in range(2 * MAX_IDLE)]
        for each in halves:
            each.sendall(REQUEST[:20])
        assert sum(raw.rest(each) == b"" for each in halves[:MAX_IDLE]) == MAX_IDLE


def test_a_body_is_read_in_larger_slices_than_what_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sizes: list[int] = []
    data_received = HttptoolsProtocol.data_received

    def noted(self: HttptoolsProtocol, data: bytes) -> None:
        sizes.append(len(data))
        data_received(self, data)

    monkeypatch.setattr(HttptoolsProtocol, "data_received", noted)
    body = json.dumps({"input": "Hello.", "voice": "a" * 1_200_000}).encode()
    head = b"POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
    first = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
    others = [REQUEST.replace(b"close", b"keep-alive")] * 1_000
    with start_server(Settings(model=TOY.model)) as server, raw.dialled(server) as asking:
        asking.sendall(b"".join([first, *others, REQUEST]))
        answers = raw.rest(asking)
    assert answers.startswith(b"HTTP/1.1 404")  # no such voice
    assert answers.count(b"HTTP/1.1 200") == 1_001
    large = [end for size, end in zip(sizes, accumulate(sizes), strict=True) if size > SLICE_BYTES]
    assert max(sizes) == MAX_BODY_PIECE_BYTES
    assert max(large) <= len(first)


@pytest.mark.parametrize("length", ["", "Content-Length: 1000000000\r\n"], ids=["alone", "body"])
def test_headers_without_end_are_refused(server: RunningServer, length: str) -> None:
    with raw.dialled(server) as connection:
        beginning = f"POST /v1/audio/speech HTTP/1.1\r\n{length}X: ".encode()
        raw.pour(connection, beginning + b"a" * (4 * 2**20))
        assert raw.rest(connection).startswith(b"HTTP/1.1 431 ")
