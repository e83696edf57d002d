"""What is known of an answer only at its end, told after its body: trailers of HTTP/1.1.

Uvicorn has them for HTTP/2 alone. Here ASGI's extension ``http.response.trailers`` is added to its
HTTP/1.1 implementations: the trailers are written with the chunk that ends the body.
"""

import asyncio
from collections.abc import Iterable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

EXTENSION = "http.response.trailers"
_LAST_CHUNK = b"0\r\n\r\n"


def takes_trailers(scope: Scope) -> bool:
    """Return whether a client asks for trailers (``TE: trailers``) that the server can send."""
    wanted = [value for name, value in scope["headers"] if name == b"te"]
    codings = b",".join(wanted).lower().split(b",")
    is_wanted = any(each.split(b";")[0].strip() == b"trailers" for each in codings)
    return is_wanted and EXTENSION in scope.get("extensions", {})


class WithTrailers(asyncio.Protocol):
    """Sends trailers; mixed into an HTTP implementation of uvicorn."""

    transport: Any
    app: ASGIApp

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport = _Transport(self.transport)
        self.app = _Speaking(self.app, self.transport)

    def handle_websocket_upgrade(self, *event: Any) -> None:
        """A WebSocket has no trailers, and the connection for itself."""
        self.transport = self.transport.raw
        super().handle_websocket_upgrade(*event)  # type: ignore[misc]


class _Transport:
    """Writes trailers with the last chunk, if there are some by then.

    Attributes:
        raw: all else goes to it.
        trailers: of the answer whose last chunk comes next; empty for none.
    """

    def __init__(self, raw: asyncio.Transport) -> None:
        self.raw = raw
        self.trailers: Iterable[tuple[bytes, bytes]] = ()

    def write(self, data: bytes) -> None:
        if self.trailers and data.endswith(_LAST_CHUNK):
            lines = b"".join(b"%s: %s\r\n" % each for each in self.trailers)
            data, self.trailers = data[:-2] + lines + b"\r\n", ()
        self.raw.write(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class _Speaking:
    """An app whose answers may end with trailers; it serves one connection."""

    def __init__(self, app: ASGIApp, transport: _Transport) -> None:
        self._app = app
        self._transport = transport

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
                self._transport.trailers = message["headers"]
                message = end
            await send(message)

        await self._app(scope, receive, send_or_hold)
