"""Hands what a browser asks of ``/v1`` on to a server, which may want a key that stays here."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, WebSocketException

_TIMEOUT = httpx.Timeout(10.0, read=None)  # speech may wait for its turn
_MAX_MESSAGE_BYTES = 2**24
_HANDED_BACK = ("content-type", "retry-after")


@dataclass(frozen=True, slots=True)
class DemoUpstream:
    """The server that speaks.

    Attributes:
        url: without ``/v1``.
        api_key: that it wants, if any.
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
        return await _answer(request, upstream, client)

    async def connect_through(socket: WebSocket) -> None:
        await _pass_messages(socket, upstream)

    return [
        WebSocketRoute("/v1/audio/speech/stream", connect_through),
        Route("/v1/{path:path}", hand_on, methods=["GET", "POST"]),
    ]


def new_client() -> httpx.AsyncClient:
    """Return what `proxy_routes` sends requests with; whoever asks for it closes it."""
    return httpx.AsyncClient(timeout=_TIMEOUT)


async def _answer(request: Request, upstream: DemoUpstream, client: httpx.AsyncClient) -> Response:
    headers = dict(upstream.headers)
    if (content_type := request.headers.get("content-type")) is not None:
        headers["Content-Type"] = content_type
    url = f"{upstream.url}{request.url.path}?{request.url.query}"
    asked = client.build_request(request.method, url, headers=headers, content=await request.body())
    try:
        answer = await client.send(asked, stream=True)
    except httpx.TransportError as error:
        message = f"The server at {upstream.url} cannot be reached: {error}."
        body = {"error": {"message": message, "type": "server_error", "code": "unreachable"}}
        return JSONResponse(body, status_code=502)
    kept = {
        name: value
        for name, value in answer.headers.items()
        if name in _HANDED_BACK or name.startswith("x-")
    }
    return StreamingResponse(_bytes_of(answer), answer.status_code, kept)


async def _bytes_of(answer: httpx.Response) -> AsyncGenerator[bytes, None]:
    """Yield an answer's bytes as they come; a browser that leaves ends the request."""
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()


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
        with suppress(RuntimeError):  # the browser has left
            await socket.send_json({"type": "error", "message": message})
    with suppress(RuntimeError):
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
