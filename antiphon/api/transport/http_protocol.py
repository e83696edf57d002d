"""uvicorn's HTTP implementations, as our connections need them."""

import asyncio
from functools import partial
from typing import Any, cast

from uvicorn.config import HTTP_PROTOCOLS
from uvicorn.importer import import_from_string

from antiphon.api.transport.connection import Connection, Phase, Timeouts
from antiphon.api.transport.trailers import WithTrailers

SLICE_BYTES = 16 * 1024


class WatchedHttp(asyncio.Protocol):
    """Reports its phase to its connection; mixed into either implementation."""

    slice_bytes = SLICE_BYTES
    num_body_bytes = 0
    cycle: Any
    transport: asyncio.Transport
    pipeline: Any  # requests that wait, in a collection

    @property
    def phase(self) -> str:
        if self.cycle is None or (self.cycle.response_complete and not self.cycle.more_body):
            return Phase.HEAD
        return Phase.REST if self.cycle.response_complete else Phase.BUSY

    @property
    def takes_more(self) -> bool:
        return not self.pipeline  # requests wait for the answers of those before them

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.cycle = None  # it refers to this object

    def on_response_complete(self) -> None:
        super().on_response_complete()  # type: ignore[misc] # the implementation's
        cast(Connection, self.transport).resume()


def http_protocol(name: str, timeouts: Timeouts) -> Any:
    """Return uvicorn's option ``http``; ``name``: ``auto``, ``httptools`` or ``h11``."""
    if name == "auto":
        is_there = import_from_string(HTTP_PROTOCOLS["auto"]).__name__ == "HttpToolsProtocol"
        name = "httptools" if is_there else "h11"
    if name == "h11":
        base: Any = import_from_string(HTTP_PROTOCOLS["h11"])
        implementation = type("H11Protocol", (WatchedHttp, WithTrailers, base), {"pipeline": ()})
    else:
        implementation = import_from_string(
            "antiphon.api.transport.httptools_protocol:HttptoolsProtocol"
        )
    return partial(_connection, implementation, timeouts)


def _connection(implementation: Any, timeouts: Timeouts, **uvicorn: Any) -> Connection:
    return Connection(implementation(**uvicorn), timeouts)
