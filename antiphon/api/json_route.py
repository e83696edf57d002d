"""Routes whose JSON bodies are read in steps, between which other requests have their turn."""

import asyncio
import codecs
import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response

_MAX_BYTES_AT_ONCE = 1024 * 1024
"""A body of this size is decoded, parsed and validated within a few milliseconds."""


class JsonRoute(APIRoute):
    """Keeps bodies of megabytes from holding the event loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_prepared(request: Request) -> Response:
            return await handle(await self.prepared(request))

        return handle_prepared

    async def prepared(self, request: Request) -> Request:
        """Return a request from which the framework reads the body."""
        return _SteppedRequest(request.scope, request.receive)


class _SteppedRequest(Request):
    """A request that yields to the event loop before and after each step of reading JSON."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            if len(body) <= _MAX_BYTES_AT_ONCE:
                return await super().json()
            text = await _decoded(body)
            await asyncio.sleep(0)
            self._json = json.loads(text)
            await asyncio.sleep(0)
        return self._json


async def _decoded(body: bytes) -> str:
    """Decode as `json.loads` does."""
    decoder = codecs.getincrementaldecoder(json.detect_encoding(body))("surrogatepass")
    pieces = []
    for start in range(0, len(body), _MAX_BYTES_AT_ONCE):
        await asyncio.sleep(0)
        pieces.append(decoder.decode(body[start : start + _MAX_BYTES_AT_ONCE]))
    pieces.append(decoder.decode(b"", final=True))
    return "".join(pieces)
