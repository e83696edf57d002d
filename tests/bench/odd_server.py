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
ANSWERS: dict[str, Callable[[], Answer]] = {}


def answer(run: Callable[[], Answer]) -> Callable[[], Answer]:
    ANSWERS[run.__name__] = run
    return run


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


@answer
async def good() -> Answer:
    yield whole("audio/pcm", SAMPLES)


@answer
async def closes_kept_connections() -> Answer:
    yield whole("audio/pcm", SAMPLES)


@answer
async def empty() -> Answer:
    yield whole("audio/pcm", b"")


@answer
async def breaks_off() -> Answer:
    yield head("audio/pcm", len(SAMPLES)) + SAMPLES[:1000]


@answer
async def breaks_off_in_chunks() -> Answer:
    yield head("audio/pcm", None) + chunk(SAMPLES)


@answer
async def breaks_off_in_the_head() -> Answer:
    yield b"HTTP/1.1 200 OK\r\nContent-Ty"


@answer
async def says_nothing() -> Answer:
    yield b""


@answer
async def half_a_sample() -> Answer:
    yield whole("audio/pcm", SAMPLES + b"\1")


@answer
async def html() -> Answer:
    yield whole("text/html", b"<h1>Welcome</h1>")


@answer
async def mp3() -> Answer:
    yield whole("audio/mpeg", b"ID3" + SAMPLES)


@answer
async def mp3_without_a_name() -> Answer:
    yield whole("application/octet-stream", b"ID3\4" + SAMPLES)


@answer
async def json_error() -> Answer:
    error = {"error": {"message": f"Out of memory, key {KEY}"}}
    yield whole("application/json", json.dumps(error).encode())


@answer
async def error_event() -> Answer:
    error = {"message": "The GPU has fallen off the bus."}
    body = DELTA + b"event: error\n" + event(type="error", error=error)
    yield whole("text/event-stream", body)


@answer
async def no_last_event() -> Answer:
    yield whole("text/event-stream", DELTA)


@answer
async def events_that_never_end() -> Answer:
    yield head("text/event-stream", None) + chunk(DELTA)
    while True:
        await asyncio.sleep(0.02)
        yield chunk(b": still here\n\n")


@answer
async def events_of_no_json() -> Answer:
    yield whole("text/event-stream", b"data: {audio\n\n" + DONE)


@answer
async def events_of_no_base64() -> Answer:
    yield whole("text/event-stream", event(audio="not *base64*") + DONE)


@answer
async def events() -> Answer:
    yield whole("text/event-stream", DELTA.replace(b"data: ", b"data:") + DONE)


@answer
async def odd_pieces() -> Answer:
    yield head("audio/pcm", None)
    for start in range(0, len(SAMPLES), 7):
        yield chunk(SAMPLES[start : start + 7])
    yield chunk(b"")


@answer
async def until_the_connection_ends() -> Answer:
    yield b"HTTP/1.0 200 OK\r\nContent-Type: audio/pcm\r\n\r\n" + SAMPLES


@answer
async def gzipped() -> Answer:
    yield whole("audio/pcm", gzip.compress(SAMPLES), "Content-Encoding: gzip")


@answer
async def redirect() -> Answer:
    yield whole("text/plain", b"", f"Location: /elsewhere?key={KEY}", status="307 Go")


@answer
async def no_content() -> Answer:
    yield b"HTTP/1.1 204 No Content\r\n\r\n"


@answer
async def busy() -> Answer:
    yield whole("text/plain", b"later", "Retry-After: 0.01", status="429 Too Many Requests")


@answer
async def busy_until_a_date() -> Answer:
    date = "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT"
    yield whole("text/plain", b"later", date, "Retry-After-Ms: soon", status="429 No")


@answer
async def slow_head() -> Answer:
    for byte in head("audio/pcm", len(SAMPLES)):
        yield bytes([byte])
        await asyncio.sleep(0.001)
    yield SAMPLES


@answer
async def hangs() -> Answer:
    yield head("audio/pcm", len(SAMPLES)) + SAMPLES[:1000]
    await asyncio.Event().wait()


@answer
async def hangs_at_once() -> Answer:
    await asyncio.Event().wait()
    yield b""


@answer
async def latin_1_error() -> Answer:
    yield whole("text/plain", "Überlauf: \xff".encode("latin-1"), status="500 Oh")


@answer
async def headers_of_latin_1() -> Answer:
    yield whole("audio/pcm", SAMPLES, "X-Greeting: Gr\xfc\xdfe")


@answer
async def no_rate() -> Answer:
    yield whole("audio/pcm", SAMPLES, "X-Sample-Rate: 0")


@answer
async def no_http() -> Answer:
    yield b"SSH-2.0-OpenSSH_9.6\r\n"


@answer
async def wav() -> Answer:
    yield whole("audio/wav", wav_header(24_000, 2400) + SAMPLES)


@answer
async def wav_of_48_khz() -> Answer:
    yield whole("audio/wav", wav_header(48_000, None) + SAMPLES * 2)


@answer
async def wav_that_is_cut() -> Answer:
    yield whole("audio/wav", wav_header(24_000, 24_000) + SAMPLES)


@answer
async def wav_that_goes_on() -> Answer:
    yield whole("audio/wav", wav_header(24_000, 240) + SAMPLES)


@answer
async def wav_with_words_behind() -> Answer:
    yield whole("audio/wav", wav_header(24_000, 2400) + SAMPLES + b"LIST\4\0\0\0INFO")


@answer
async def wav_of_8_bits() -> Answer:
    header = bytearray(wav_header(24_000, 4800))
    header[34] = 8
    yield whole("audio/wav", bytes(header) + SAMPLES)


@answer
async def wav_of_a_head() -> Answer:
    yield whole("audio/wav", wav_header(24_000, 2400)[:30])


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
        async for part in ANSWERS[name]():
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
