"""How speech ended is told after a streamed file, to clients that ask for it and to no others."""

import json
import socket
from collections.abc import Generator
from typing import Any

import pytest

from tests.servers import TOY, RunningServer, start_server

PATH = "/v1/audio/speech"


@pytest.fixture(scope="module", params=["httptools", "h11"])
def any_http(request: pytest.FixtureRequest) -> Generator[RunningServer, None, None]:
    """A server on each of the HTTP implementations that uvicorn may pick."""
    with start_server(TOY, http=request.param) as running:
        yield running


def head_of(body: dict[str, Any], *lines: str, version: str = "1.1") -> bytes:
    content = json.dumps({"input": "Hello there.", "response_format": "pcm", **body})
    fields = (
        "Host: localhost",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
        *lines,
    )
    return "\r\n".join((f"POST {PATH} HTTP/{version}", *fields, "", content)).encode()


def answers(server: RunningServer, *requests: bytes) -> bytes:
    """Return all that the server sends on one connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        for request in requests:
            connection.sendall(request)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def told(answer: bytes) -> tuple[bytes, bytes]:
    """Return the lower-case head of an answer and what comes after its last chunk's length."""
    head, _, body = answer.partition(b"\r\n\r\n")
    while True:
        length, _, body = body.partition(b"\r\n")
        if int(length, 16) == 0:
            return head.lower(), body
        body = body[int(length, 16) + 2 :]


@pytest.mark.parametrize(
    ("body", "reason"), [({}, b"stop"), ({"max_new_tokens": 4}, b"length")], ids=str
)
@pytest.mark.parametrize("te", ["trailers", "Gzip;q=0.5, Trailers"])
def test_who_asks_is_told_after_the_body(
    any_http: RunningServer, body: dict[str, Any], reason: bytes, te: str
) -> None:
    head, rest = told(answers(any_http, head_of(body, f"TE: {te}", "Connection: close")))
    assert b"\r\ntrailer: x-finish-reason" in head
    assert rest == b"x-finish-reason: " + reason + b"\r\n\r\n"


@pytest.mark.parametrize("lines", [(), ("TE: gzip",)])
def test_who_does_not_ask_gets_none(any_http: RunningServer, lines: tuple[str, ...]) -> None:
    head, rest = told(answers(any_http, head_of({}, *lines, "Connection: close")))
    assert b"trailer" not in head
    assert rest == b"\r\n"


def test_a_whole_file_tells_it_before(any_http: RunningServer) -> None:
    request = head_of({"stream": False}, "TE: trailers", "Connection: close")
    head, _, _ = answers(any_http, request).lower().partition(b"\r\n\r\n")
    assert b"\r\nx-finish-reason: stop" in head
    assert b"\r\ntrailer" not in head
    assert b"\r\ncontent-length" in head


def test_an_old_client_gets_none(any_http: RunningServer) -> None:
    answer = answers(any_http, head_of({}, "TE: trailers", version="1.0"))
    assert b"trailer" not in answer.lower().partition(b"\r\n\r\n")[0]
    assert b"finish-reason" not in answer


def test_the_connection_serves_on(any_http: RunningServer) -> None:
    last = head_of({}, "Connection: close")
    answer = answers(any_http, *[head_of({}, "TE: trailers")] * 2, last)
    assert answer.count(b"HTTP/1.1 200") == 3
    assert answer.count(b"x-finish-reason: stop\r\n\r\n") == 2


@pytest.mark.parametrize("lines", [(), ("TE: trailers",)])
def test_what_fails_midway_tells_nothing(
    faulty_server: RunningServer, lines: tuple[str, ...]
) -> None:
    request = head_of({"input": "3 chunks, then engine error"}, *lines, "Connection: close")
    answer = answers(faulty_server, request)
    assert answer.startswith(b"HTTP/1.1 200")
    assert not answer.endswith(b"0\r\n\r\n")
    assert b"x-finish-reason: " not in answer
