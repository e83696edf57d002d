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

from antiphon.bench.bodies import DEFAULT_SAMPLE_RATE_HZ, Body, open_body
from antiphon.bench.load import Target
from antiphon.bench.record import Record, outcome_of

_MAX_ERROR_BYTES = 2000


class Exchange:
    """One request under way, and what has come back so far."""

    def __init__(self, response_format: str, done: "asyncio.Future[None]") -> None:
        self.done = done
        self.status = 0
        self.headers: dict[str, str] = {}
        self.is_complete = False
        self.arrivals_s: list[float] = []
        self.durations_s: list[float] = []
        self.body: Body | None = None
        self.error = bytearray()
        self._format = response_format
        self.rate_hz = DEFAULT_SAMPLE_RATE_HZ
        self.first_byte_s: float | None = None
        self._sound_arrived_s = 0.0

    def begin(self, status: int) -> None:
        """Take the end of the response's head."""
        self.status = status
        self.rate_hz = int(self.headers.get("x-sample-rate", DEFAULT_SAMPLE_RATE_HZ))
        if status == 200:
            channels = int(self.headers.get("x-channels", 1))
            self.body = open_body(self._format, self.headers.get("content-type", ""), channels)

    def take(self, data: bytes, now_s: float) -> None:
        """Take a part of the response's body, which has just arrived."""
        if self.first_byte_s is None:
            self.first_byte_s = now_s
        if self.body is None:
            self.error += data[: _MAX_ERROR_BYTES - len(self.error)]
            return
        num_before = self.body.num_samples
        was_silent = self.body.first_sound_sample is None
        self.body.feed(data)
        if num_new := self.body.num_samples - num_before:
            self.arrivals_s.append(now_s)
            self.durations_s.append(num_new / self.rate_hz)
        if was_silent and self.body.first_sound_sample is not None:
            self._sound_arrived_s = now_s

    def first_sound_s(self) -> float | None:
        """Return when the first sound would be heard: silence before it is played too."""
        if self.body is None or self.body.first_sound_sample is None:
            return None
        silence_s = self.body.first_sound_sample / self.rate_hz
        return max(self._sound_arrived_s, self.arrivals_s[0] + silence_s)

    def end(self) -> None:
        """Wake the request that waits for the response."""
        if not self.done.done():
            self.done.set_result(None)


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

    def send(self, request: bytes, exchange: Exchange) -> None:
        """Send a request; its response goes to ``exchange``.

        Raises:
            ConnectionResetError: the server has closed the connection.
        """
        if self._transport is None:
            raise ConnectionResetError("The server has closed the connection.")
        self._exchange = exchange
        self._transport.write(request)

    def close(self) -> None:
        """Break the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def data_received(self, data: bytes) -> None:
        self._now_s = time.monotonic()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._exchange is not None:
            self._exchange.end()
            self._exchange = None

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._exchange is not None:
            self._exchange.headers[name.decode().lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._exchange is not None:
            self._exchange.begin(self._parser.get_status_code())

    def on_body(self, data: bytes) -> None:
        if self._exchange is not None:
            self._exchange.take(data, self._now_s)

    def on_message_complete(self) -> None:
        if self._exchange is None:
            return
        self._exchange.is_complete = True
        self._exchange.end()
        self._exchange = None
        if self._parser.should_keep_alive():
            self._parser = httptools.HttpResponseParser(self)
        else:
            self.close()


class SpeechClient:
    """Speaks to one server over as many connections as are needed at a time, which are kept."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._idle: list[LoadConnection] = []

    async def speak(self, index: int, text: str, due_s: float) -> Record:
        """Send one request and return what became of it."""
        fields = {**self.target.fields, **self.target.lengths(index), "input": text}
        request = request_bytes(self.target, fields)
        sent_s = time.monotonic()
        exchange = Exchange(
            str(fields.get("response_format")), asyncio.get_running_loop().create_future()
        )
        message = await self.carry(request, exchange)
        return record_of(index, text, (due_s, sent_s), exchange, message, self.target.tokens_header)

    async def carry(self, request: bytes, exchange: Exchange) -> str:
        """Send a request and wait for the end of its response, which ``exchange`` takes.

        Returns:
            An error of the connection, "" if there is none.
        """
        try:
            connection = await self._connection()
            connection.send(request, exchange)
            await exchange.done
            if connection.is_idle:
                self._idle.append(connection)
        except OSError as error:
            return str(error)
        return ""

    def close(self) -> None:
        """Break all connections."""
        for connection in self._idle:
            connection.close()

    async def _connection(self) -> LoadConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_idle:  # the server may have closed it meanwhile
                return connection
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            LoadConnection, self.target.host, self.target.port
        )
        return connection


def request_bytes(target: Target, body: Mapping[str, Any]) -> bytes:
    """Return a whole HTTP request."""
    content = json.dumps(body).encode()
    host = f"[{target.host}]" if ":" in target.host else target.host
    lines = [
        f"POST {target.path} HTTP/1.1",
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
    message: str,
    tokens_header: str | None = None,
) -> Record:
    """Return what became of a request that has ended.

    Args:
        index: its number.
        text: that it said.
        times_s: when it was due and when it was sent.
        exchange: what came back.
        message: of an error of the connection.
        tokens_header: in which a server counts frames.
    """
    due_s, sent_s = times_s
    retry_after_ms = exchange.headers.get("retry-after-ms")
    num_tokens = exchange.body.num_tokens if exchange.body is not None else None
    if num_tokens is None and tokens_header is not None:
        told = exchange.headers.get(tokens_header, "")
        num_tokens = int(told) if told.isdecimal() else None
    return Record(
        index=index,
        due_s=due_s,
        sent_s=sent_s,
        ended_s=time.monotonic(),
        outcome=outcome_of(exchange.status, is_complete=exchange.is_complete),
        status=exchange.status,
        num_characters=len(text),
        first_byte_s=exchange.first_byte_s,
        arrivals_s=tuple(exchange.arrivals_s),
        durations_s=tuple(exchange.durations_s),
        first_sound_s=exchange.first_sound_s(),
        num_tokens=num_tokens,
        retry_after_s=float(retry_after_ms) / 1000 if retry_after_ms else None,
        message=message or exchange.error.decode(errors="replace"),
    )
