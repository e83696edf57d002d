"""Clients that send their headers or body byte by byte hold a connection for a limited time."""

import asyncio
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.importer import import_from_string

from antiphon.api.trailers import WithTrailers
from antiphon.errors import SlowRequestError

MAX_HEAD_BYTES = 64 * 1024
MIN_BODY_BYTES_PER_S = 10_000
_RAW = "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


class _WatchedHead(asyncio.Protocol):
    """Waits for a request's head no longer than agreed; mixed into an HTTP implementation."""

    header_timeout_s: float
    transport: asyncio.Transport
    cycle: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._num_head_bytes = 0
        self._head_deadline: asyncio.TimerHandle | None = None
        self._wait_for_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._has_head():
            self._stop_waiting()
        elif not self.transport.is_closing():
            self._wait_for_head()
            self._num_head_bytes += len(data)
            if self._num_head_bytes > MAX_HEAD_BYTES:
                self._refuse("431 Request Header Fields Too Large")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _has_head(self) -> bool:
        """Whether a request is under way, or the connection has become a WebSocket."""
        is_ours = self.transport.get_protocol() is self
        return not is_ours or bool(self.cycle and not self.cycle.response_complete)

    def _wait_for_head(self) -> None:
        if self._head_deadline is None:
            loop = asyncio.get_running_loop()
            self._head_deadline = loop.call_later(
                self.header_timeout_s, self._refuse, "408 Request Timeout"
            )

    def _stop_waiting(self) -> None:
        self._num_head_bytes = 0
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _refuse(self, status: str) -> None:
        self._stop_waiting()
        if not self.transport.is_closing():
            self.transport.write(_RAW.format(status=status).encode())
            self.transport.close()


def http_protocol(name: str, header_timeout_s: float) -> type[asyncio.Protocol]:
    """Return uvicorn's HTTP implementation of this name, with trailers, and bounds for headers.

    Args:
        name: ``auto``, ``httptools`` or ``h11``.
        header_timeout_s: from the first byte of a connection or of a further request on it.
    """
    base: Any = import_from_string(HTTP_PROTOCOLS.get(name, name))
    bases = (_WatchedHead, WithTrailers, base)
    return type("WatchedProtocol", bases, {"header_timeout_s": header_timeout_s})


class SlowBodyMiddleware:
    """Waits for a body no longer than agreed."""

    def __init__(self, app: ASGIApp, body_timeout_s: float) -> None:
        self._app = app
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline_s = asyncio.get_running_loop().time() + self._body_timeout_s
        has_come = False

        async def in_time() -> Message:
            nonlocal deadline_s, has_come
            if has_come:  # what comes now is only that the client has left
                return await receive()
            try:
                async with asyncio.timeout_at(deadline_s):
                    message = await receive()
            except TimeoutError:
                raise SlowRequestError("The request body took too long to arrive.") from None
            deadline_s += len(message.get("body", b"")) / MIN_BODY_BYTES_PER_S
            has_come = not message.get("more_body", False)
            return message

        await self._app(scope, in_time, send)
