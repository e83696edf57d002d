"""A browser that leaves ends what was asked of the server for it, whatever had come by then."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from functools import wraps
from typing import Any

import pytest

httpx: Any = pytest.importorskip("httpx", reason="httpx is not installed")

from starlette.applications import Starlette  # noqa: E402
from websockets.asyncio.server import ServerConnection, serve  # noqa: E402
from websockets.exceptions import ConnectionClosed  # noqa: E402

from antiphon.demo.proxy import DemoUpstream, proxy_routes  # noqa: E402
from tests.servers import DEADLINE_S  # noqa: E402

HOST = "127.0.0.1"


class Browser:
    """One request or socket of a browser, which may leave at any time.

    Attributes:
        on_send: called before something comes.
        raises: whether sending raises when it has left: application servers differ in this.
    """

    def __init__(self, *said: dict[str, Any]) -> None:
        self.kind = "http"
        self.said = list(said)
        self.got: list[dict[str, Any]] = []
        self.on_send: Callable[[str], Awaitable[None]] | None = None
        self.raises = False
        self.has_left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        if self.said:
            return self.said.pop(0)
        await self.has_left.wait()
        return {"type": f"{self.kind}.disconnect", "code": 1001}

    async def send(self, message: Any) -> None:
        if self.on_send is not None:
            await self.on_send(message["type"])
        if not self.has_left.is_set():
            self.got.append(message)
        elif self.raises:
            raise OSError("the connection is closed")

    async def ask(self, upstream_url: str, path: str, client: Any, kind: str = "http") -> None:
        self.kind = kind
        scope = {
            "type": kind,
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "scheme": "http" if kind == "http" else "ws",
            "method": "POST",
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"demo")],
            "subprotocols": [],
        }
        app: Any = Starlette(routes=proxy_routes(DemoUpstream(upstream_url), client))
        await app(scope, self.receive, self.send)


def in_time(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test within a deadline, on a loop on which nothing is left over when it has ended."""

    async def run(**arguments: Any) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await test(**arguments)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    @wraps(test)
    def on_a_loop(**arguments: Any) -> None:
        asyncio.run(run(**arguments))

    return on_a_loop


class Sound(httpx.AsyncByteStream):  # type: ignore[misc]
    """A piece of audio, and nothing after it for ever; knows whether it was closed."""

    is_closed = False

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        yield b"one"
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.is_closed = True


BODY = {"type": "http.request", "body": b"{}", "more_body": False}


@in_time
async def test_a_browser_that_leaves_while_the_server_is_asked_ends_the_request() -> None:
    outcomes: list[str] = []
    browser = Browser(BODY)

    async def answer(_: Any) -> Any:
        browser.has_left.set()
        try:
            await asyncio.Event().wait()
        finally:
            outcomes.append("ended")

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await browser.ask("http://server", "/v1/audio/speech", client)
    assert browser.got == []
    assert outcomes == ["ended"]


@in_time
@pytest.mark.parametrize("raises", [False, True])
@pytest.mark.parametrize("at", ["http.response.start", "http.response.body"])
async def test_a_browser_that_leaves_while_it_is_sent_something_ends_the_answer(
    at: str, raises: bool
) -> None:
    sound = Sound()
    browser = Browser(BODY)
    browser.raises = raises

    async def leave(type: str) -> None:
        if type == at:
            browser.has_left.set()
            if not raises:
                await asyncio.Event().wait()

    browser.on_send = leave

    async def answer(_: Any) -> Any:
        return httpx.Response(200, stream=sound)

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await browser.ask("http://server", "/v1/audio/speech", client)
    assert sound.is_closed


@in_time
async def test_a_browser_that_stays_gets_all_of_it() -> None:
    browser = Browser(BODY)

    async def answer(_: Any) -> Any:
        return httpx.Response(200, stream=httpx.ByteStream(b"all"))

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await browser.ask("http://server", "/v1/audio/speech", client)
    assert [each.get("body") for each in browser.got] == [None, b"all", b""]


@in_time
async def test_a_browser_that_leaves_before_it_has_said_all_is_not_heard() -> None:
    browser = Browser({**BODY, "more_body": True})
    browser.has_left.set()

    async def answer(_: Any) -> Any:
        raise AssertionError("nothing is asked")

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as client:
        await browser.ask("http://server", "/v1/audio/speech", client)


def opened(*said: str) -> Browser:
    texts = [{"type": "websocket.receive", "text": text} for text in said]
    browser = Browser({"type": "websocket.connect"}, *texts)
    browser.raises = True
    return browser


async def stream_through(browser: Browser, port: int) -> None:
    async with httpx.AsyncClient() as client:
        url = f"http://{HOST}:{port}"
        await browser.ask(url, "/v1/audio/speech/stream", client, "websocket")


@in_time
async def test_a_browser_that_leaves_while_the_socket_connects_is_told_nothing() -> None:
    browser = opened()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        browser.has_left.set()
        writer.close()

    async with await asyncio.start_server(refuse, HOST, 0) as server:
        await stream_through(browser, server.sockets[0].getsockname()[1])
    assert [each["type"] for each in browser.got] == ["websocket.accept"]


@in_time
@pytest.mark.parametrize("is_sending", [False, True])
async def test_a_browser_that_leaves_closes_the_servers_socket(is_sending: bool) -> None:
    heard: list[str] = []
    browser, has_ended = opened("Hi"), asyncio.Event()

    async def speak(connection: ServerConnection) -> None:
        heard.append(str(await connection.recv()))
        if is_sending:
            await connection.send(b"sound")
        else:
            browser.has_left.set()
        with pytest.raises(ConnectionClosed):
            await connection.recv()
        has_ended.set()

    async def leave(type: str) -> None:
        if type == "websocket.send":
            browser.has_left.set()

    browser.on_send = leave
    async with serve(speak, HOST, 0) as server:
        await stream_through(browser, next(iter(server.sockets)).getsockname()[1])
        await has_ended.wait()
    assert heard == ["Hi"]


@in_time
async def test_a_server_that_ends_a_socket_ends_the_browsers() -> None:
    browser = opened()

    async def speak(connection: ServerConnection) -> None:
        await connection.send("last")

    async with serve(speak, HOST, 0) as server:
        await stream_through(browser, next(iter(server.sockets)).getsockname()[1])
    types = [each["type"] for each in browser.got]
    assert types == ["websocket.accept", "websocket.send", "websocket.close"]
