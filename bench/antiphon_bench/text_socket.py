"""WebSocket client that sends text word by word, as a language model writes it."""

import asyncio
import json
import time

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from antiphon_bench.adapters import TextStream, message
from antiphon_bench.connection import record_of
from antiphon_bench.event_body import message_of
from antiphon_bench.exchange import Exchange
from antiphon_bench.load import Target
from antiphon_bench.record import Record

_AUDIO_MEMBERS = ("audio", "audio_b64", "delta")
_RATE_MEMBER = "sample_rate"
_FIRST_OF_CJK = 0x2E80
_CLOSE_TIMEOUT_S = 2.0
"""Timeout for a server that does not answer the closing handshake; nothing is measured then."""


class TextStreamClient:
    """Speaks to one server, over a connection for each request: so do those that it stands for."""

    def __init__(self, target: Target) -> None:
        assert target.text_stream is not None
        self._target = target
        self._protocol = target.text_stream
        self._tls = target.tls()

    async def speak(self, index: int, text: str, due_s: float) -> Record:
        """Send one text, piece by piece, and return its record."""
        sent_s = time.monotonic()
        exchange = Exchange("pcm")
        try:
            async with asyncio.timeout(self._target.timeout_s):
                await self._exchange(index, text, exchange)
        except InvalidStatus as refusal:
            exchange.status = refusal.response.status_code
            exchange.headers |= {k.lower(): v for k, v in refusal.response.headers.raw_items()}
            exchange.error += refusal.response.body or b""
            exchange.fail("invalid", f"There is no WebSocket: HTTP {exchange.status}")
        except TimeoutError:
            reason = f"The answer was not complete after {self._target.timeout_s:g} s"
            exchange.fail("timeout", reason)
        except (OSError, WebSocketException) as broken:
            exchange.fail("broken", str(broken))
        return record_of(index, text, (due_s, sent_s), exchange, self._target)

    async def _exchange(self, index: int, text: str, exchange: Exchange) -> None:
        async with connect(
            self._url(),
            additional_headers=self._headers(),
            ssl=self._tls,
            max_size=None,
            proxy=None,
            open_timeout=None,  # that of the whole counts
            close_timeout=_CLOSE_TIMEOUT_S,
        ) as socket:
            exchange.begin(200)
            fields = {**self._target.fields, **self._target.lengths(index)}
            await socket.send(message({**self._protocol.config, **fields}))
            writer = asyncio.create_task(self._write(socket, text))
            try:
                await _read(socket, self._protocol, exchange)
            finally:
                writer.cancel()
                await asyncio.gather(writer, return_exceptions=True)

    def close(self) -> None:
        """Do nothing: each request closes its own connection."""

    async def _write(self, socket: ClientConnection, text: str) -> None:
        pieces = pieces_of(text)
        pause_s = 1 / self._target.pieces_per_s if self._target.pieces_per_s else 0.0
        began_s = time.monotonic()
        for order, piece in enumerate(pieces):
            await asyncio.sleep(began_s + order * pause_s - time.monotonic())
            await socket.send(message(self._protocol.text, piece))
        await socket.send(message(self._protocol.done))

    def _url(self) -> str:
        host = f"[{self._target.host}]" if ":" in self._target.host else self._target.host
        scheme = "wss" if self._target.is_tls else "ws"
        return f"{scheme}://{host}:{self._target.port}{self._target.path}{self._target.query}"

    def _headers(self) -> dict[str, str]:
        key = self._target.api_key
        return {} if key is None else {"Authorization": f"Bearer {key}"}


def pieces_of(text: str) -> list[str]:
    """Cut a text as a language model writes it: into words, or characters of CJK."""
    starts = [0]
    for at, character in enumerate(text[1:], 1):
        if character == " " or ord(character) >= _FIRST_OF_CJK:
            starts.append(at)
    ends = [*starts[1:], len(text)]
    return [text[start:end] for start, end in zip(starts, ends, strict=True)]


async def _read(socket: ClientConnection, protocol: TextStream, exchange: Exchange) -> None:
    """Read all audio, until a message marks the last, or a fault occurs."""
    async for received in socket:
        now_s = time.monotonic()
        if isinstance(received, bytes):
            exchange.take(received, now_s)
        else:
            _take_message(received, protocol, exchange, now_s)
        if exchange.done.done():
            return
    exchange.fail("broken", "The server closed the connection")


def _take_message(text: str, protocol: TextStream, exchange: Exchange, now_s: float) -> None:
    try:
        message = json.loads(text)
    except ValueError:
        exchange.fail("invalid", f"A message is no JSON: {text[:80]}")
        return
    if not isinstance(message, dict):
        exchange.fail("invalid", f"A message is no object: {text[:80]}")
        return
    if message.get("type") == "error":
        exchange.fail("failed", message_of(message.get("error") or message))
        return
    if _RATE_MEMBER in message:
        exchange.take_rate(message[_RATE_MEMBER])
    for name in _AUDIO_MEMBERS:
        if isinstance(audio := message.get(name), str):
            exchange.take_base64(audio, now_s)
    if message.get("type") == protocol.last:
        exchange.complete()
