"""Two ends of a connection in one process, for tests."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from antiphon.fabric.wire.frames import WireLimits
from antiphon.fabric.wire.rpc import RpcHandlers, RpcPeer
from antiphon.fabric.wire.sockets import RpcServer, connect
from tests.loops import until

LOOPS = (
    "asyncio",
    pytest.param(
        ("asyncio", {"use_uvloop": True}),
        marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed"),
        id="uvloop",
    ),
)
"""Backends of a test, for its `anyio_backend`: asyncio's event loop, and uvloop's."""
TOKEN = "a token"


async def turns(number: int = 20) -> None:
    """Let everything that is ready run."""
    for _ in range(number):
        await asyncio.sleep(0)


@asynccontextmanager
async def connected(
    folder: Path,
    handlers: RpcHandlers,
    *,
    limits: WireLimits | None = None,
    client_handlers: RpcHandlers | None = None,
) -> AsyncGenerator[tuple[RpcPeer, RpcPeer], None]:
    """Connect a client to a server that serves these; yield both ends, the client's first."""
    server = RpcServer(lambda _: handlers, TOKEN, limits=limits)
    address = await server.serve(f"unix:{folder}/wire/socket")
    client = await connect(address, TOKEN, client_handlers, limits=limits)
    try:
        await until(lambda: bool(server.peers))
        (there,) = server.peers
        yield client, there
    finally:
        client.close()
        await server.close()


def calls(**methods: Callable[..., Awaitable[Any]]) -> RpcHandlers:
    return RpcHandlers(calls=methods)


def streams(**methods: Callable[..., AsyncGenerator[Any, None]]) -> RpcHandlers:
    return RpcHandlers(streams=methods)
