"""A server whose answers are wrong, each in its own way; the first part of the path names it."""

import asyncio
import base64
import contextlib
import gzip
import json
import ssl
import struct
import threading
from collections.abc import AsyncIterator, Callable, Generator

from antiphon.audio.wav import wav_header

SAMPLES = struct.pack("<h", 1000) * 2400
"""A tenth of a second at 24 kHz."""
DURATION_S = 0.1
KEY = "sk-a-key-that-nobody-may-see"
Answer = AsyncIterator[bytes]
ERROR = {"message": "The GPU has fallen off the bus."}
JSON_ERROR = {"error": {"message": f"Out of memory, key {KEY}"}}
UNCLEAR = ("Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", "Retry-After-Ms: soon")


def head(kind: str, length: int | None, *more: str, status: str = "200 OK") -> bytes:
    size = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", size, *more]
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


def whole(kind: str, body: bytes, *more: str, status: str = "200 OK") -> bytes:
    return head(kind, len(body), *more, status=status) + body


def chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def event(**members: object) -> bytes:
    return f"data: {json.dumps(members)}\n\n".encode()


DELTA = event(type="speech.audio.delta", audio=base64.b64encode(SAMPLES).decode())
DONE = event(type="speech.audio.done", usage={"output_tokens": 3})


def samples(body: bytes, *more: str) -> bytes:
    return whole("audio/pcm", body, *more)


def wav(header: bytes, body: bytes = SAMPLES) -> bytes:
    return whole("audio/wav", header + body)


def events(body: bytes) -> bytes:
    return whole("text/event-stream", body)


AT_ONCE = {
    "good": samples(SAMPLES),
    "closes_kept_connections": samples(SAMPLES),
    "empty": samples(b""),
    "breaks_off": head("audio/pcm", len(SAMPLES)) + SAMPLES[:1000],
    "breaks_off_in_chunks": head("audio/pcm", None) + chunk(SAMPLES),
    "breaks_off_in_the_head": b"HTTP/1.1 200 OK\r\nContent-Ty",
    "says_nothing": b"",
    "half_a_sample": samples(SAMPLES + b"\1"),
    "html": whole("text/html", b"<h1>Welcome</h1>"),
    "mp3": whole("audio/mpeg", b"ID3" + SAMPLES),
    "mp3_without_a_name": whole("application/octet-stream", b"ID3\4" + SAMPLES),
    "json_error": whole("application/json", json.dumps(JSON_ERROR).encode()),
    "error_event": events(DELTA + b"event: error\n" + event(type="error", error=ERROR)),
    "no_last_event": events(DELTA),
    "events_of_no_json": events(b"data: {audio\n\n" + DONE),
    "events_of_no_base64": events(event(audio="not *base64*") + DONE),
    "events": events(DELTA.replace(b"data: ", b"data:") + DONE),
    "until_the_connection_ends": b"HTTP/1.0 200 OK\r\nContent-Type: audio/pcm\r\n\r\n" + SAMPLES,
    "gzipped": samples(gzip.compress(SAMPLES), "Content-Encoding: gzip"),
    "redirect": whole("text/plain", b"", f"Location: /elsewhere?key={KEY}", status="307 Go"),
    "no_content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "busy": whole("text/plain", b"later", "Retry-After: 0.01", status="429 Too Many Requests"),
    "busy_until_a_date": whole("text/plain", b"later", *UNCLEAR, status="429 No"),
    "latin_1_error": whole("text/plain", "Überlauf: \xff".encode("latin-1"), status="500 Oh"),
    "headers_of_latin_1": samples(SAMPLES, "X-Greeting: Gr\xfc\xdfe"),
    "no_rate": samples(SAMPLES, "X-Sample-Rate: 0"),
    "no_http": b"SSH-2.0-OpenSSH_9.6\r\n",
    "wav": wav(wav_header(24_000, 2400)),
    "wav_of_48_khz": wav(wav_header(48_000, None), SAMPLES * 2),
    "wav_that_is_cut": wav(wav_header(24_000, 24_000)),
    "wav_that_goes_on": wav(wav_header(24_000, 240)),
    "wav_with_words_behind": wav(wav_header(24_000, 2400), SAMPLES + b"LIST\4\0\0\0INFO"),
    "wav_of_8_bits": wav(wav_header(24_000, 4800).replace(b"\x10\0data", b"\x08\0data")),
    "wav_of_a_head": wav(wav_header(24_000, 2400)[:30], b""),
}


async def in_one(answer: bytes) -> Answer:
    yield answer


async def events_that_never_end() -> Answer:
    yield head("text/event-stream", None) + chunk(DELTA)
    while True:
        await asyncio.sleep(0.02)
        yield chunk(b": still here\n\n")


async def odd_pieces() -> Answer:
    yield head("audio/pcm", None)
    for start in range(0, len(SAMPLES), 7):
        yield chunk(SAMPLES[start : start + 7])
    yield chunk(b"")


async def slow_head() -> Answer:
    for byte in head("audio/pcm", len(SAMPLES)):
        yield bytes([byte])
        await asyncio.sleep(0.001)
    yield SAMPLES


async def hangs() -> Answer:
    yield head("audio/pcm", len(SAMPLES)) + SAMPLES[:1000]
    await asyncio.Event().wait()


async def hangs_at_once() -> Answer:
    await asyncio.Event().wait()
    yield b""


IN_PARTS = (events_that_never_end, odd_pieces, slow_head, hangs, hangs_at_once)
ANSWERS: dict[str, bytes | Callable[[], Answer]]
ANSWERS = {**AT_ONCE, **{each.__name__: each for each in IN_PARTS}}


class OddServer:
    """Listens.

    Attributes:
        num_connections: that were made.
        requests: heads of all requests.
    """

    def __init__(self) -> None:
        self.num_connections = 0
        self.requests: list[str] = []
        self.base_url = ""

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.num_connections += 1
        number = 0
        try:
            while await self._answer(reader, writer, number):
                number += 1
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client is gone
        finally:
            writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int
    ) -> bool:
        """Answer a connection's request of this number; return whether the connection is kept."""
        request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        self.requests.append(request)
        length = request.lower().partition("content-length: ")[2].partition("\r\n")[0]
        await reader.readexactly(int(length or 0))
        name = request.split("/")[1]
        if name == "closes_kept_connections" and number:
            return False  # as if it had done so just before the request came
        answer = ANSWERS[name]
        async for part in in_one(answer) if isinstance(answer, bytes) else answer():
            writer.write(part)
            await writer.drain()
        return name in ("good", "closes_kept_connections", "busy")


@contextlib.contextmanager
def odd_server(tls: ssl.SSLContext | None = None) -> Generator[OddServer, None, None]:
    """Serve until the block ends, over TLS if there is a certificate for it."""
    found, is_ready, over = OddServer(), threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        listening = await asyncio.start_server(found.take, "127.0.0.1", 0, ssl=tls)
        scheme = "http" if tls is None else "https"
        found.base_url = f"{scheme}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        loops.append(asyncio.get_running_loop())
        is_ready.set()
        await over.wait()
        listening.close()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    is_ready.wait()
    try:
        yield found
    finally:
        loops[0].call_soon_threadsafe(over.set)
        thread.join()
