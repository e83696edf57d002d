"""Hands what a browser asks of ``/v1`` on to a server, which may want a key that stays here."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass

import httpx
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

_TIMEOUT = httpx.Timeout(10.0, read=None)  # speech may wait for its turn
_MAX_MESSAGE_BYTES = 2**24
_HANDED_BACK = ("content-type", "retry-after")
_GONE = (WebSocketDisconnect, RuntimeError)
"""What sending to a browser that has left raises, the first time and after that."""


@dataclass(frozen=True, slots=True)
class DemoUpstream:
    """The server that speaks.

    Attributes:
        url: Address without ``/v1``.
    """

    url: str
    api_key: str | None = None

    @property
    def headers(self) -> dict[str, str]:
        """What every request is sent with."""
        return {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}


def proxy_routes(upstream: DemoUpstream, client: httpx.AsyncClient) -> list[BaseRoute]:
    """Return routes of everything below ``/v1``: requests, and the socket that takes text."""

    async def hand_on(request: Request) -> Response:
        headers = dict(upstream.headers)
        if (content_type := request.headers.get("content-type")) is not None:
            headers["Content-Type"] = content_type
        url = f"{upstream.url}{request.url.path}?{request.url.query}"
        try:
            content = await request.body()
        except ClientDisconnect:
            return Response()  # the client is gone
        asked = client.build_request(request.method, url, headers=headers, content=content)
        return _UpstreamResponse(asked, upstream, client)

    async def connect_through(socket: WebSocket) -> None:
        await _pass_messages(socket, upstream)

    return [
        WebSocketRoute("/v1/audio/speech/stream", connect_through),
        Route("/v1/{path:path}", hand_on, methods=["GET", "POST"]),
    ]


def new_client() -> httpx.AsyncClient:
    """Return the client of `proxy_routes`; the caller closes it."""
    return httpx.AsyncClient(timeout=_TIMEOUT)


class _UpstreamResponse(Response):
    """What a server answers, as it comes; a browser that leaves ends the request to it."""

    def __init__(
        self, asked: httpx.Request, upstream: DemoUpstream, client: httpx.AsyncClient
    ) -> None:
        super().__init__()
        self._asked, self._upstream, self._client = asked, upstream, client

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        handing_on = asyncio.create_task(self._hand_on(scope, receive, send))
        watch = asyncio.create_task(_until_gone(receive))
        try:
            await asyncio.wait((handing_on, watch), return_when=asyncio.FIRST_COMPLETED)
        finally:
            handing_on.cancel()  # no-op if it has ended
            watch.cancel()
            await asyncio.wait((handing_on, watch))
        if not handing_on.cancelled():
            handing_on.result()

    async def _hand_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._client.send(self._asked, stream=True)
        except httpx.TransportError as error:
            message = f"The server at {self._upstream.url} cannot be reached: {error}."
            body = {"error": {"message": message, "type": "server_error", "code": "unreachable"}}
            await JSONResponse(body, status_code=502)(scope, receive, send)
            return
        try:
            kept = {
                name: value
                for name, value in answer.headers.items()
                if name in _HANDED_BACK or name.startswith("x-")
            }
            pieces = StreamingResponse(answer.aiter_raw(), answer.status_code, kept)
            with suppress(OSError):  # what servers may raise when the browser has left
                await pieces.stream_response(send)
        finally:
            await answer.aclose()


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _pass_messages(socket: WebSocket, upstream: DemoUpstream) -> None:
    await socket.accept()
    url = f"ws{upstream.url.removeprefix('http')}{socket.url.path}"
    try:
        async with (
            connect(
                url, additional_headers=upstream.headers, max_size=_MAX_MESSAGE_BYTES
            ) as server,
            asyncio.TaskGroup() as tasks,
        ):
            sending = tasks.create_task(_send(socket, server))
            await _receive(server, socket)
            sending.cancel()
    except (OSError, WebSocketException) as error:
        message = f"The server cannot be used: {error}"
        with suppress(*_GONE):
            await socket.send_json({"type": "error", "message": message})
    with suppress(*_GONE):
        await socket.close()


async def _send(socket: WebSocket, server: ClientConnection) -> None:
    """Pass a browser's messages on; close the server's connection when it leaves."""
    with suppress(WebSocketDisconnect, ConnectionClosed):
        while True:
            await server.send(await socket.receive_text())
    await server.close()


async def _receive(server: ClientConnection, socket: WebSocket) -> None:
    with suppress(ConnectionClosed, WebSocketDisconnect):
        async for message in server:
            if isinstance(message, str):
                await socket.send_text(message)
            else:
                await socket.send_bytes(message)
