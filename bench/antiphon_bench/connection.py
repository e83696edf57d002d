"""A small HTTP/1.1 client that notes when every byte arrived, and costs next to nothing.

One connection carries one request at a time, on a bare asyncio transport: hundreds of streams must
not make the client the bottleneck of what it measures.
"""

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Any, cast

import httptools

from antiphon_bench.exchange import Exchange, retry_after_s
from antiphon_bench.load import Target
from antiphon_bench.record import Record, outcome_of


class LoadConnection(asyncio.Protocol):
    """A connection to a server; `exchange` is what it is carrying."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._now_s = 0.0

    @property
    def is_idle(self) -> bool:
        """Whether another request can be sent."""
        return self._transport is not None and self._exchange is None

    async def carry(self, request: bytes, exchange: Exchange) -> bool:
        """Send a request and read its response into ``exchange``; return whether anything came."""
        if self._transport is None:
            return False
        self._exchange = exchange
        self._transport.write(request)
        await exchange.done
        return not exchange.is_unanswered

    def close(self) -> None:
        """Break the connection; whatever it carries has ended."""
        transport, self._transport = self._transport, None
        if transport is not None:
            transport.abort()
        self._end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        self._now_s = time.monotonic()
        if self._exchange is None:  # answer without a request: what follows is undefined
            self.close()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if self._exchange is not None:
                self._exchange.fail("invalid", f"The answer is no HTTP/1.1: {error}")
        if self._exchange is not None and self._exchange.done.done():
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        exchange = self._exchange
        if exchange is not None and exc is None and exchange.ends_with_connection:
            exchange.complete()
        elif exchange is not None and not exchange.is_unanswered:
            exchange.fail("broken", "The connection ended before the answer did")
        self._end()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is not None:
            self._exchange.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._exchange is not None:
            self._exchange.begin(self._parser.get_status_code())

    def on_body(self, data: bytes) -> None:
        if self._exchange is not None:
            self._exchange.take(data, self._now_s)

    def on_message_complete(self) -> None:
        if self._exchange is None:
            return
        self._exchange.complete()
        self._end()
        if self._parser.should_keep_alive():
            self._parser = httptools.HttpResponseParser(self)
        else:
            self.close()

    def _end(self) -> None:
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end()


class SpeechClient:
    """Speaks to one server over as many connections as are needed at a time, which are kept."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._tls = target.tls()
        self._idle: list[LoadConnection] = []

    async def speak(self, index: int, text: str, due_s: float) -> Record:
        """Send one request and return its record."""
        fields = {**self.target.fields, **self.target.lengths(index), "input": text}
        request = request_bytes(self.target, fields)
        await asyncio.sleep(0)  # of requests that go out at once, all are made before one is sent
        sent_s = time.monotonic()
        exchange = Exchange(str(fields.get("response_format")))
        await self.carry(request, exchange)
        return record_of(index, text, (due_s, sent_s), exchange, self.target)

    async def carry(self, request: bytes, exchange: Exchange) -> None:
        """Send a request and wait for the end of its response, which ``exchange`` takes.

        What is wrong with the connection is a fault of the exchange. A server may close a
        connection that was idle just when a request goes out: it is then sent once more.
        """
        connection: LoadConnection | None = None
        try:
            async with asyncio.timeout(self.target.timeout_s):
                connection = self._kept()
                if connection is None or not await connection.carry(request, exchange):
                    exchange.restart()
                    connection = await self._connected()
                    if not await connection.carry(request, exchange):
                        exchange.fail("broken", "The connection ended without any answer")
        except TimeoutError:
            timeout_s = self.target.timeout_s
            exchange.fail("timeout", f"The answer was not complete after {timeout_s:g} s")
        except OSError as error:
            exchange.fail("broken", str(error))
        if connection is not None:
            self._keep(connection, exchange)

    def close(self) -> None:
        """Break all connections."""
        for connection in self._idle:
            connection.close()

    def _kept(self) -> LoadConnection | None:
        """Return a connection that an earlier request has left open, if there is one."""
        while self._idle:
            connection = self._idle.pop()
            if connection.is_idle:  # the server may have closed it meanwhile
                return connection
        return None

    def _keep(self, connection: LoadConnection, exchange: Exchange) -> None:
        if connection.is_idle and exchange.is_complete:
            self._idle.append(connection)
        else:
            connection.close()

    async def _connected(self) -> LoadConnection:
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            LoadConnection, self.target.host, self.target.port, ssl=self._tls
        )
        return connection


def request_bytes(target: Target, body: Mapping[str, Any]) -> bytes:
    """Return a whole HTTP request."""
    content = json.dumps(body).encode()
    host = f"[{target.host}]" if ":" in target.host else target.host
    lines = [
        f"POST {target.path}{target.query} HTTP/1.1",
        f"Host: {host}:{target.port}",
        "Content-Type: application/json",
        f"Content-Length: {len(content)}",
    ]
    if target.api_key is not None:
        lines.append(f"Authorization: Bearer {target.api_key}")
    return "\r\n".join([*lines, "", ""]).encode() + content


def record_of(
    index: int,
    text: str,
    times_s: tuple[float, float],
    exchange: Exchange,
    target: Target,
) -> Record:
    """Return the record of a request that has ended.

    Args:
        index: number of the request.
        times_s: due time and send time.
        target: server of the request; its keys are hidden in messages.
    """
    due_s, sent_s = times_s
    ended_s, status = exchange.ended_s, exchange.status
    outcome = outcome_of(status, is_complete=exchange.is_complete, fault=exchange.fault)
    num_tokens = exchange.body.num_tokens if exchange.body is not None else None
    if num_tokens is None and target.tokens_header is not None:
        header = exchange.headers.get(target.tokens_header, "")
        num_tokens = int(header) if header.isascii() and header.isdecimal() else None
    return Record(
        index=index,
        due_s=due_s,
        sent_s=sent_s,
        ended_s=time.monotonic() if ended_s is None else ended_s,
        outcome=outcome,
        status=status,
        num_characters=len(text),
        first_byte_s=exchange.first_byte_s,
        arrivals_s=tuple(exchange.arrivals_s),
        durations_s=tuple(exchange.durations_s),
        first_sound_s=exchange.first_sound_s(),
        num_tokens=num_tokens,
        retry_after_s=retry_after_s(exchange.headers),
        message="" if outcome == "ok" else target.redaction.text(exchange.reason()),
    )
