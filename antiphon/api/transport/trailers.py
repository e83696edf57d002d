"""Trailers of HTTP/1.1: properties of an answer that are known only at its end.

Uvicorn has them for HTTP/2 alone. Here ASGI's extension ``http.response.trailers`` is added to its
HTTP/1.1 implementations: the trailers are written with the chunk that ends the body.
"""

import asyncio
from collections.abc import Sequence
from typing import Protocol, cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

EXTENSION = "http.response.trailers"
LAST_CHUNK = b"0\r\n\r\n"


def takes_trailers(scope: Scope) -> bool:
    """Return whether a client asks for trailers (``TE: trailers``) that the server can send."""
    wanted = [value for name, value in scope["headers"] if name == b"te"]
    codings = b",".join(wanted).lower().split(b",")
    is_wanted = any(each.split(b";")[0].strip() == b"trailers" for each in codings)
    return is_wanted and EXTENSION in scope.get("extensions", {})


class Ending(Protocol):
    """A connection that puts trailers before the end of a body."""

    trailers: Sequence[tuple[bytes, bytes]]


class WithTrailers(asyncio.Protocol):
    """Sends trailers over an `Ending`; mixed into an HTTP implementation of uvicorn."""

    app: ASGIApp

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.app = _Speaking(self.app, cast(Ending, transport))


def with_trailers(data: bytes, trailers: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return what is written, with trailers in its last chunk; ``data`` as it is without one."""
    if not data.endswith(LAST_CHUNK):
        return data
    lines = b"".join(b"%s: %s\r\n" % each for each in trailers)
    return data[:-2] + lines + b"\r\n"


class _Speaking:
    """An app whose answers may end with trailers; it serves one connection."""

    def __init__(self, app: ASGIApp, connection: Ending) -> None:
        self._app = app
        self._connection = connection

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["http_version"] != "1.1":
            await self._app(scope, receive, send)
            return
        scope["extensions"] = {**scope.get("extensions", {}), EXTENSION: {}}
        are_promised = False
        end: Message | None = None

        async def send_or_hold(message: Message) -> None:
            nonlocal are_promised, end
            if message["type"] == "http.response.start":
                are_promised = message.get("trailers", False)
            is_end = message["type"] == "http.response.body" and not message.get("more_body")
            if are_promised and is_end:
                end = message
                return
            if message["type"] == "http.response.trailers":
                assert end is not None, "trailers come after the body"
                self._connection.trailers = message["headers"]
                message = end
            await send(message)

        await self._app(scope, receive, send_or_hold)
