"""How much is taken in at once, and how long slow clients are waited for."""

import json
import math
import socket
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import InvalidStatus

from antiphon.api.middleware import rate_limit
from antiphon.api.middleware.keys import address_of, hashed
from antiphon.api.middleware.limit_table import LocalLimitTable
from antiphon.api.middleware.rate_limit import RateLimits, duration
from antiphon.config import LimitSettings, ModelSettings, ServerSettings, Settings
from antiphon.errors import RateLimitError
from tests import faulty
from tests.decoding import error_of
from tests.servers import TOY, RunningServer, start_server, wait_until
from tests.sockets import connected

URL = "/v1/audio/speech"
SOCKET = "/v1/audio/speech/stream"
ENDLESS = {"input": "1000000 chunks, then stop", "response_format": "pcm"}
SHORT = {"input": "1 chunks, then stop", "response_format": "pcm"}

Start = Callable[..., RunningServer]


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Generator[Start, None, None]:
    faulty.register(monkeypatch)
    with ExitStack() as stack:

        def started(limits: LimitSettings, **server: Any) -> RunningServer:
            settings = Settings(
                model=ModelSettings(source="faulty"), limits=limits, server=ServerSettings(**server)
            )
            running = stack.enter_context(start_server(settings))
            wait_until(lambda: not running.state.hindrances)
            return running

        yield started


@contextmanager
def listening(server: RunningServer, **headers: str) -> Generator[httpx.Response, None, None]:
    """Listen to an endless stream for as long as the block lasts."""
    with httpx.stream("POST", server.base_url + URL, json=ENDLESS, headers=headers) as response:
        yield response


def test_of_too_many_requests_at_once_the_last_is_told_to_come_again(start: Start) -> None:
    server = start(LimitSettings(max_requests=2))
    with listening(server), listening(server):
        response = httpx.post(server.base_url + URL, json=SHORT)
        assert error_of(response, 503)["code"] == "overloaded"
        assert int(response.headers["retry-after"]) >= 1
        for path in ("/health", "/ready", "/metrics"):
            assert httpx.get(server.base_url + path).status_code == 200, "probes come through"
    wait_until(lambda: server.state.guards.connections.num_open["http"] == 0)
    assert httpx.post(server.base_url + URL, json=SHORT).status_code == 200


def test_of_too_many_websockets_the_last_is_refused(start: Start) -> None:
    server = start(LimitSettings(max_sockets=1))
    with connected(server, SOCKET):
        with pytest.raises(InvalidStatus) as refused, connected(server, SOCKET):
            pass
        assert refused.value.response.status_code == 503
        assert httpx.post(server.base_url + URL, json=SHORT).status_code == 200
    wait_until(lambda: server.state.guards.connections.num_open["websocket"] == 0)
    with connected(server, SOCKET):
        pass


def test_nobody_takes_all_places(start: Start) -> None:
    server = start(LimitSettings(caller_places=1), api_keys=("one", "two"))
    one, two = ({"Authorization": f"Bearer {key}"} for key in ("one", "two"))
    with listening(server, **one), connected(server, SOCKET, one):
        for method in ("POST", "GET"):
            again = httpx.request(method, server.base_url + URL, headers=one, json=SHORT)
            assert error_of(again, 429)["code"] == "rate_limit_exceeded"
            assert int(again.headers["retry-after"]) >= 1
        with pytest.raises(InvalidStatus) as refused, connected(server, SOCKET, one):
            pass
        assert refused.value.response.status_code == 429
        assert httpx.post(server.base_url + URL, json=SHORT, headers=two).status_code == 200
        assert httpx.get(f"{server.base_url}/health", headers=one).status_code == 200
        with connected(server, SOCKET, two):
            pass
    table = server.state.guards.table
    assert isinstance(table, LocalLimitTable)
    wait_until(lambda: not len(table))
    assert httpx.post(server.base_url + URL, json=SHORT, headers=one).status_code == 200


def test_reads_are_limited_where_a_key_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rate_limit, "MIN_READS", 2)
    counted = RateLimits(LimitSettings(key_concurrency=1), LocalLimitTable())
    with counted.used("caller"), counted.reading("caller"), counted.reading("caller"):
        with pytest.raises(RateLimitError), counted.reading("caller"):
            pass
        with counted.reading("another"):
            pass
    with counted.reading("caller"):
        pass
    unlimited = RateLimits(LimitSettings(key_requests_per_minute=1), LocalLimitTable())
    with unlimited.reading("a"), unlimited.reading("a"), unlimited.reading("a"):
        pass


def test_each_key_has_its_own_limits(start: Start) -> None:
    limits = LimitSettings(key_concurrency=1, key_requests_per_minute=3)
    server = start(limits, api_keys=("one", hashed("two")))
    one, two = ({"Authorization": f"Bearer {key}"} for key in ("one", "two"))
    with listening(server, **one) as response:
        assert response.headers["x-ratelimit-limit-requests"] == "3"
        assert response.headers["x-ratelimit-remaining-requests"] == "2"
        again = httpx.post(server.base_url + URL, json=SHORT, headers=one)
        error = error_of(again, 429)
        assert (error["type"], error["code"]) == ("rate_limit_error", "rate_limit_exceeded")
        assert float(again.headers["retry-after-ms"]) > 0
        assert httpx.post(server.base_url + URL, json=SHORT, headers=two).status_code == 200
        with pytest.raises(InvalidStatus) as refused, connected(server, SOCKET, one):
            pass
        assert refused.value.response.status_code == 429
        assert httpx.get(f"{server.base_url}/v1/models", headers=one).status_code == 200
    wait_until(lambda: server.state.guards.connections.num_open["http"] == 0)
    statuses = [
        httpx.post(server.base_url + URL, json=SHORT, headers=one).status_code for _ in range(3)
    ]
    assert statuses == [200, 200, 429]


@pytest.mark.parametrize("media_type", ["application/json", "application/json; charset=utf-8"])
def test_a_body_that_is_refused_as_it_arrives_was_a_request(start: Start, media_type: str) -> None:
    server = start(LimitSettings(key_requests_per_minute=5))
    headers, bodies = {"Content-Type": media_type}, [b"[" * 20_000, b"["]
    answers = [httpx.post(server.base_url + URL, content=body, headers=headers) for body in bodies]
    assert [error_of(each, 400)["code"] for each in answers] == ["json_too_large", "invalid_json"]
    answers.append(httpx.post(server.base_url + URL, json={"input": "x", "voice": "nobody"}))
    left = [each.headers["x-ratelimit-remaining-requests"] for each in answers]
    assert left == ["4", "3", "2"]


def test_without_keys_an_address_is_the_caller(start: Start) -> None:
    server = start(LimitSettings(key_requests_per_minute=1))
    assert httpx.post(server.base_url + URL, json=SHORT).status_code == 200
    error_of(httpx.post(server.base_url + URL, json=SHORT), 429)


def wait_s(counted: RateLimits) -> float:
    """Ask once; return how long to wait before the next try, 0 if it was granted."""
    try:
        with counted.used("caller") as told:
            left = int(told["x-ratelimit-remaining-requests"])
            return 0.0 if left >= 0 else math.inf
    except RateLimitError as error:
        return error.retry_after_s or math.inf


@given(st.lists(st.floats(0, 30), max_size=60), st.integers(1, 20))
def test_no_minute_has_more_than_its_requests(pauses_s: list[float], per_minute: int) -> None:
    now_s = 0.0
    counted = RateLimits(
        LimitSettings(key_requests_per_minute=per_minute), LocalLimitTable(), clock=lambda: now_s
    )
    granted_s: list[float] = []
    for pause_s in pauses_s:
        now_s += pause_s
        retry_after_s = wait_s(counted)
        assert retry_after_s <= 60 / per_minute
        if not retry_after_s:
            granted_s.append(now_s)
    for begin_s in granted_s:
        # What was saved up before, and what fills up meanwhile.
        assert sum(begin_s <= each < begin_s + 60 for each in granted_s) <= 2 * per_minute


@given(st.integers(1, 100))
def test_whoever_waits_as_told_is_let_in(per_minute: int) -> None:
    now_s = 0.0
    counted = RateLimits(
        LimitSettings(key_requests_per_minute=per_minute), LocalLimitTable(), clock=lambda: now_s
    )
    assert [wait_s(counted) for _ in range(per_minute)] == [0.0] * per_minute
    for _ in range(20):
        retry_after_s = wait_s(counted)
        assert retry_after_s > 0
        now_s += retry_after_s + 1e-6
        assert wait_s(counted) == 0


def test_only_so_many_callers_are_remembered() -> None:
    table = LocalLimitTable(max_buckets=3)
    limits = LimitSettings(key_concurrency=1, key_requests_per_minute=5)
    counted = RateLimits(limits, table)
    with counted.used("busy"):
        for number in range(20):
            with counted.used(str(number)):
                pass
        with pytest.raises(RateLimitError), counted.used("busy"):
            pass
    assert (len(table), len(table._buckets)) == (0, 3)


def test_addresses_of_one_household_are_one_caller() -> None:
    def caller(host: str) -> str:
        return address_of({"type": "http", "client": (host, 1)})

    assert caller("2001:db8::1") == caller("2001:db8::ffff:2") != caller("2001:db8:0:1::1")
    assert caller("192.0.2.1") != caller("192.0.2.2")
    assert caller("") == "unknown"


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "0ms"), (0.02, "20ms"), (1, "1s"), (1.5, "1.5s"), (360, "6m0s")]
)
def test_times_are_spelt_as_openai_does(seconds: float, told: str) -> None:
    assert duration(seconds) == told


@pytest.fixture(params=["httptools", "h11"])
def impatient(request: pytest.FixtureRequest) -> Generator[RunningServer, None, None]:
    limits = LimitSettings(header_timeout_s=0.3, body_timeout_s=0.3)
    settings = Settings(model=TOY.model, limits=limits)
    with start_server(settings, http=request.param) as running:
        yield running


def answer(server: RunningServer, sent: bytes) -> bytes:
    """Send something over a socket of its own, and return all that comes until it is closed."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))


HEAD = b"POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


@pytest.mark.parametrize("sent", [b"", b"GET", HEAD])
def test_headers_that_do_not_come_are_not_waited_for(impatient: RunningServer, sent: bytes) -> None:
    assert b"HTTP/1.1 408" in answer(impatient, sent)
    assert httpx.get(impatient.base_url).status_code == 200


def test_a_body_that_does_not_come_is_not_waited_for(impatient: RunningServer) -> None:
    received = answer(impatient, HEAD + b'Content-Length: 1000\r\n\r\n{"input": "Hello')
    head, _, body = received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408")
    assert json.loads(body)["error"]["code"] == "timeout"


def test_headers_without_end_are_refused(impatient: RunningServer) -> None:
    with socket.create_connection(("127.0.0.1", impatient.port), timeout=30) as connection:
        received = b""
        try:
            connection.sendall(HEAD)
            for _ in range(1000):
                connection.sendall(b"X-More: " + b"x" * 1000 + b"\r\n")
            received = connection.recv(65536)
        except ConnectionError:
            received = b"HTTP/1.1 4"  # it was closed while we still sent
    assert received.startswith(b"HTTP/1.1 4")


def test_whoever_is_quick_notices_no_limit(impatient: RunningServer) -> None:
    with httpx.Client(base_url=impatient.base_url) as client:
        for _ in range(3):
            assert client.post(URL, json={"input": "Hello there."}).status_code == 200
    with connected(impatient, SOCKET) as talk:
        talk.send("session.config")
        talk.send("input.done")
        assert talk.until("session.done")
