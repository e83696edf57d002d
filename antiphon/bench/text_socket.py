"""Sends text word by word over a WebSocket, as a language model writes it, and times the audio."""

import asyncio
import base64
import json
import time

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from antiphon.bench.adapters import TextStream, message
from antiphon.bench.connection import Exchange, record_of
from antiphon.bench.load import Target
from antiphon.bench.record import Record

_AUDIO_MEMBERS = ("audio", "audio_b64", "delta")
_RATE_MEMBER = "sample_rate"
_FIRST_OF_CJK = 0x2E80


class TextStreamClient:
    """Speaks to one server, over a connection for each request: so do those that it stands for."""

    def __init__(self, target: Target) -> None:
        assert target.text_stream is not None
        self._target = target
        self._protocol = target.text_stream

    async def speak(self, index: int, text: str, due_s: float) -> Record:
        """Send one text, piece by piece, and return what became of it."""
        sent_s = time.monotonic()
        exchange = Exchange("pcm", asyncio.get_running_loop().create_future())
        error = ""
        try:
            async with connect(
                self._url(), additional_headers=self._headers(), max_size=None, proxy=None
            ) as socket:
                exchange.begin(200)
                fields = {**self._target.fields, **self._target.lengths(index)}
                await socket.send(message({**self._protocol.config, **fields}))
                writer = asyncio.create_task(self._write(socket, text))
                try:
                    error = await _read(socket, self._protocol, exchange)
                finally:
                    writer.cancel()
                    await asyncio.gather(writer, return_exceptions=True)
        except InvalidStatus as refusal:
            exchange.status, error = refusal.response.status_code, str(refusal)
        except (OSError, WebSocketException) as broken:
            error = str(broken)
        return record_of(index, text, (due_s, sent_s), exchange, error)

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
        return f"ws://{host}:{self._target.port}{self._target.path}"

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


async def _read(socket: ClientConnection, protocol: TextStream, exchange: Exchange) -> str:
    """Take all audio; return the message of an error, if there is one."""
    async for received in socket:
        now_s = time.monotonic()
        if isinstance(received, bytes):
            exchange.take(received, now_s)
            continue
        told = json.loads(received)
        if isinstance(rate_hz := told.get(_RATE_MEMBER), int):
            exchange.rate_hz = rate_hz
        for name in _AUDIO_MEMBERS:
            if isinstance(audio := told.get(name), str):
                exchange.take(base64.b64decode(audio), now_s)
        if told.get("type") == "error":
            return str(told.get("message") or told.get("error"))
        if told.get("type") == protocol.last:
            exchange.is_complete = True
            return ""
    return "The server closed the connection."
