"""An HTTP server of few words, to say exactly what a test wants said, right or wrong."""

import asyncio
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

Answer: TypeAlias = Callable[[asyncio.StreamWriter], Awaitable[None]]


def said(*parts: bytes) -> Answer:
    """Return an answer of these bytes, after which the connection is closed."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        for part in parts:
            writer.write(part)
            await writer.drain()

    return answer


def ok(body: bytes) -> Answer:
    return said(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body), body)


def moved(location: str, status: int = 302) -> Answer:
    line = f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n"
    return said(line.encode())


async def silent(writer: asyncio.StreamWriter) -> None:
    """Say nothing, until the other side leaves."""
    await writer.wait_closed()


async def endless(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + bytes(0x10000) + b"\r\n")
        await writer.drain()


async def dripping(writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then, so that no single read takes long."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    while True:
        writer.write(b"a")
        await writer.drain()
        await asyncio.sleep(0.01)


@dataclass
class RawServer:
    """Answers by path, on a port of 127.0.0.1, and the heads of requests in order.

    ``num_connections`` counts those without a request, too.
    """

    answers: dict[str, Answer]
    port: int = 0
    requests: list[str] = field(default_factory=list)
    num_connections: int = 0

    def url(self, path: str, host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            self.requests.append(head)
            await self.answers[head.split(" ")[1]](writer)
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


@asynccontextmanager
async def serving(
    answers: dict[str, Answer], ssl_context: ssl.SSLContext | None = None
) -> AsyncGenerator[RawServer, None]:
    state = RawServer(answers)
    server = await asyncio.start_server(state._serve, "127.0.0.1", 0, ssl=ssl_context)
    state.port = server.sockets[0].getsockname()[1]
    tasks = asyncio.all_tasks()
    try:
        yield state
    finally:
        server.close()
        left = asyncio.all_tasks() - tasks
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
