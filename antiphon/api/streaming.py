"""Responses that stop working when their client leaves, and break when their source fails.

Starlette's own streaming response looks for a leaving client only after it has sent its headers,
which is before it knows whether there will be any audio. These await the first bytes, so that a
failure until then is a real error status.
"""

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, Generic, TypeAlias, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from antiphon.api.errors import on_failure
from antiphon.api.transport.trailers import takes_trailers
from antiphon.concurrency import until_ended

T = TypeVar("T")
Pieces: TypeAlias = AsyncGenerator[bytes, None]

MAX_BYTES_AT_ONCE = 64 * 1024
"""What a connection takes in before it waits for its client to read."""
OnClose: TypeAlias = Callable[[Exception], bytes]
"""Makes the last bytes that a client gets before a failure breaks the connection."""


class WatchedResponse(Response):
    """Delivers, and watches all the time whether the client is still there."""

    def __init__(self, headers: Mapping[str, str], media_type: str) -> None:
        self.status_code = 200
        self.background = None
        self.media_type = media_type
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        delivery = asyncio.create_task(self.deliver(send))
        watch = asyncio.create_task(_until_disconnect(receive))
        try:
            await asyncio.wait((delivery, watch), return_when=asyncio.FIRST_COMPLETED)
        finally:
            watch.cancel()
            delivery.cancel()  # no-op if it has ended
            await until_ended(delivery, watch)
        if not delivery.cancelled():
            delivery.result()

    @abstractmethod
    async def deliver(self, send: Send) -> None:
        """Send the whole response; cancelled when the client leaves."""

    async def send_head(self, send: Send, **more: bool) -> None:
        start = {"status": self.status_code, "headers": self.raw_headers, **more}
        await send({"type": "http.response.start", **start})


class StreamedResponse(WatchedResponse, Generic[T]):
    """Sends each piece before it asks for the next: a slow reader slows its source down."""

    def __init__(
        self,
        items: AsyncGenerator[T, None],
        headers: Mapping[str, str],
        media_type: str,
        on_close: OnClose | None = None,
        trailers: Mapping[str, str] | None = None,
        late_headers: Callable[[], Mapping[str, str]] = dict,
        write: Callable[[T], bytes] | None = None,
    ) -> None:
        """Send what ``write`` makes of ``items``.

        Args:
            items: closed at the end.
            on_close: makes the last bytes that a client gets before a failure breaks off.
            trailers: sent after the body to clients that ask for them; they are announced by name,
                and have the values that they have at the end.
            late_headers: those that are known by the first piece.
            write: returns the piece of the body that an item becomes, possibly empty; ``None``:
                items are pieces.
        """
        super().__init__(headers, media_type)
        self._items = items
        self._write: Callable[[Any], bytes] = write or bytes  # which returns bytes as they are
        self._on_close = on_close
        self._trailers = trailers or {}
        self._late_headers = late_headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not takes_trailers(scope):
            self._trailers = {}
        if self._trailers:
            self.headers["Trailer"] = ", ".join(self._trailers)
        await super().__call__(scope, receive, send)

    async def deliver(self, send: Send) -> None:
        has_begun = False

        async def say_on_close(error: Exception) -> bool:
            if has_begun and self._on_close is not None:
                await _send_body(send, self._on_close(error))
            return False

        async with on_failure(say_on_close), aclosing(self._items) as items:
            async for item in items:
                if not (piece := self._write(item)):
                    continue
                if not has_begun:
                    self.headers.update(self._late_headers())
                    await self.send_head(send, trailers=bool(self._trailers))
                    has_begun = True
                await _send_body(send, piece)
        if not has_begun:
            await self.send_head(send, trailers=bool(self._trailers))
        await _send_body(send, b"", is_last=True)
        if self._trailers:
            pairs = self._trailers.items()
            headers = [(name.lower().encode(), value.encode()) for name, value in pairs]
            await send({"type": "http.response.trailers", "headers": headers})


class WholeResponse(WatchedResponse):
    """Collects first, then sends a body of known length."""

    def __init__(
        self,
        collect: Callable[[], Awaitable[tuple[list[bytes], dict[str, str]]]],
        headers: Mapping[str, str],
        media_type: str,
    ) -> None:
        """Send the pieces that ``collect`` returns, with the headers that it adds."""
        super().__init__(headers, media_type)
        self.collect = collect

    async def deliver(self, send: Send) -> None:
        pieces, more_headers = await self.collect()
        self.headers.update(more_headers)
        self.headers["Content-Length"] = str(sum(map(len, pieces)))
        await self.send_head(send)
        for piece in pieces:
            await _send_body(send, piece)
        await _send_body(send, b"", is_last=True)


async def _send_body(send: Send, body: bytes, *, is_last: bool = False) -> None:
    """Send a piece, in parts: what the connection has been given counts for no request."""
    for start in range(0, len(body), MAX_BYTES_AT_ONCE):
        part = body[start : start + MAX_BYTES_AT_ONCE]
        await send({"type": "http.response.body", "body": part, "more_body": True})
    if is_last:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _until_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
