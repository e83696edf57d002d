"""Requests made to hurt: each is refused in the usual shape, and the server goes on."""

import json
import socket
from collections.abc import Generator

import httpx
import pytest

from tests.decoding import error_of
from tests.servers import RunningServer

URL = "/v1/audio/speech"
VOICES = "/v1/audio/voices"
JSON = {"Content-Type": "application/json"}


@pytest.fixture(autouse=True)
def alive(client: httpx.Client) -> Generator[None, None, None]:
    yield
    assert client.get("/health").status_code == 200
    assert client.post(URL, json={"input": "Still here."}).status_code == 200


def raw(server: RunningServer, head: bytes) -> bytes:
    """Send a request as it is; return the beginning of what comes back."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(head + b"\r\nConnection: close\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b""))


@pytest.mark.parametrize(
    "id", [b"a\rSet-Cookie: x=1", b"a\r\n Set-Cookie: x=1", b"a\x00b", b"a%0d%0aX: 1", b"<b>"]
)
def test_no_header_of_a_request_becomes_another_of_the_response(
    server: RunningServer, id: bytes
) -> None:
    received = raw(server, b"GET /health HTTP/1.1\r\nHost: a\r\nX-Request-Id: " + id)
    head = received.partition(b"\r\n\r\n")[0].lower()
    assert b"set-cookie" not in head
    assert b"\r\nx: 1" not in head
    assert b"<b>" not in head


def test_names_that_clients_choose_do_not_come_back_in_headers(client: httpx.Client) -> None:
    body = {"input": "x", "voice": "a\r\nSet-Cookie: x=1"}
    response = client.post(URL, json=body)
    assert "set-cookie" not in response.headers
    error_of(response, 404)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"input": "x", "speed": 1e999}',
        b'{"input": "x", "speed": NaN}',
        b'{"input": "x", "seed": ' + b"9" * 100_000 + b"}",
        b'{"input": "\\ud800"}',
        b"\xff\xfe{",
        b"",
        b"null",
        b"\x00" * 1000,
        b"\x1f\x8b\x08" + b"\x00" * 100,
    ],
    ids=range(12),
)
@pytest.mark.parametrize("path", [URL, VOICES])
def test_bodies_that_are_no_requests(client: httpx.Client, path: str, body: bytes) -> None:
    error_of(client.post(path, content=body, headers=JSON), 400)


def test_a_compressed_body_is_not_opened(client: httpx.Client) -> None:
    headers = {**JSON, "Content-Encoding": "gzip"}
    error_of(client.post(URL, content=b"\x1f\x8b\x08" + bytes(100), headers=headers), 400)


@pytest.mark.parametrize("path", [URL, VOICES])
def test_forms_have_no_more_parts_than_anybody_needs(client: httpx.Client, path: str) -> None:
    fields = {f"field-{number}": (None, "x") for number in range(101)}
    error_of(client.post(path, files=fields), 400)
    files = [("audio_sample", (f"{number}.wav", b"x")) for number in range(101)]
    error_of(client.post(path, files=files), 400)


@pytest.mark.parametrize(
    "content_type",
    ["multipart/form-data", "multipart/form-data; boundary=", "multipart/form-data; boundary=\xe9"],
)
@pytest.mark.parametrize("path", [URL, VOICES])
def test_forms_without_an_end(client: httpx.Client, path: str, content_type: str) -> None:
    headers = httpx.Headers({"Content-Type": content_type}, encoding="latin-1")
    content = b'--x\r\nContent-Disposition: form-data; name="input"\r\n\r\nHello'
    error_of(client.post(path, content=content, headers=headers), 400)


def test_names_of_files_mean_nothing(client: httpx.Client) -> None:
    files = {"input": ("../../../../etc/passwd\x00.wav", b"Hello.")}
    assert client.post(URL, files=files).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        b"/static/../../etc/passwd",
        b"/static/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        b"/static/..%5c..%5cwindows",
        b"/static//etc/passwd",
        b"/v1/models/../../health",
        b"/v1/audio/voices/..%2f..%2fetc%2fpasswd",
        b"/v1/audio/voices/%00",
        b"//health",
    ],
)
def test_no_path_leads_elsewhere(server: RunningServer, path: bytes) -> None:
    received = raw(server, b"GET " + path + b" HTTP/1.1\r\nHost: a")
    assert received.startswith(b"HTTP/1.1 404") or received.startswith(b"HTTP/1.1 400")
    assert b"root:" not in received


@pytest.mark.parametrize("name", ["../escape", "a/b", "..", "a\x00b", "a\\b", "CON\n"])
def test_no_voice_has_the_name_of_a_path(client: httpx.Client, name: str) -> None:
    response = client.post(VOICES, files={"name": (None, name), "consent": (None, "yes")})
    assert 400 <= response.status_code < 500


@pytest.mark.parametrize(
    "head",
    [
        b"GET /health HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nContent-Length: -1",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2",
        b"POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity",
    ],
    ids=["both", "negative", "two", "not-chunked-last"],
)
def test_no_request_hides_in_another(server: RunningServer, head: bytes) -> None:
    received = raw(server, head)
    assert received.count(b"HTTP/1.1 ") <= 1
    assert not received or received.startswith(b"HTTP/1.1 400")


def test_errors_say_nothing_of_the_inside(client: httpx.Client) -> None:
    for response in (
        client.post(URL, content=b"{", headers=JSON),
        client.get("/nowhere"),
        client.get("/v1/audio/voices/nobody"),
    ):
        text = json.dumps(response.json())
        assert "Traceback" not in text
        assert ".py" not in text
