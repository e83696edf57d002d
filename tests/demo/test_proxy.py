"""What a browser asks is handed on with the key, and what comes back is the server's own."""

from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

httpx: Any = pytest.importorskip("httpx", reason="httpx is not installed")

from starlette.applications import Starlette  # noqa: E402

from antiphon.demo.proxy import DemoUpstream, proxy_routes  # noqa: E402
from tests.loops import on_a_loop  # noqa: E402

UPSTREAM = DemoUpstream("http://server", "secret")


class Sound(httpx.AsyncByteStream):  # type: ignore[misc]
    """Two pieces of audio; knows whether it was closed."""

    is_closed = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        yield b"one"
        yield b"two"

    async def aclose(self) -> None:
        self.is_closed = True


@on_a_loop
async def asked(
    answer: Callable[[Any], Any], path: str, upstream: DemoUpstream = UPSTREAM, **more: Any
) -> Any:
    """Return what a browser gets if the server answers so."""
    server = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    app = Starlette(routes=proxy_routes(upstream, server))
    browser = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://demo")
    async with server, browser:
        return await browser.post(path, **more)


def test_a_request_is_handed_on_with_the_key() -> None:
    seen: list[Any] = []

    def answer(request: Any) -> Any:
        seen.append(request)
        return httpx.Response(200, stream=Sound())

    cookie = {"Cookie": "theirs", "Content-Type": "application/json"}
    asked(answer, "/v1/audio/speech?model=a&x=1", content=b'{"input": "Hi"}', headers=cookie)
    asked(answer, "/v1/models", DemoUpstream("http://server"))
    first, second = seen
    assert str(first.url) == "http://server/v1/audio/speech?model=a&x=1"
    assert (first.method, first.content) == ("POST", b'{"input": "Hi"}')
    assert first.headers["authorization"] == "Bearer secret"
    assert first.headers["content-type"] == "application/json"
    assert "cookie" not in first.headers
    assert "authorization" not in second.headers


def test_an_answer_is_handed_back_whatever_it_is() -> None:
    sound = Sound()
    headers = {"content-type": "audio/pcm", "x-request-id": "7", "retry-after": "3", "server": "us"}

    def answer(_: Any) -> Any:
        return httpx.Response(429, headers=headers, stream=sound)

    found = asked(answer, "/v1/audio/speech")
    assert (found.status_code, found.content) == (429, b"onetwo")
    kept = {name: found.headers.get(name) for name in headers}
    assert kept == {**headers, "server": None}
    assert sound.is_closed


def test_a_server_that_is_away_is_told_as_an_error() -> None:
    def answer(_: Any) -> Any:
        raise httpx.ConnectError("nobody is there")

    found = asked(answer, "/v1/audio/speech")
    assert found.status_code == 502
    error = found.json()["error"]
    assert error["code"] == "unreachable"
    assert "http://server" in error["message"]
    assert "secret" not in found.text
