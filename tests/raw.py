"""Bytes on a socket, as no client sends them: requests, handshakes and frames by hand."""

import socket
from collections.abc import Generator
from contextlib import contextmanager, suppress

from tests.servers import DEADLINE_S, RunningServer

SPEECH_SOCKET = "/v1/audio/speech/stream"
TEXT, PING, PONG, CLOSE = 1, 9, 10, 8
CONTINUATION = 0


@contextmanager
def dialled(server: RunningServer) -> Generator[socket.socket, None, None]:
    """Open a connection for as long as the block lasts."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S) as connection:
        yield connection


def handshake(path: str = SPEECH_SOCKET, more_headers: str = "") -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
        f"{more_headers}\r\n"
    ).encode()


@contextmanager
def upgraded(server: RunningServer) -> Generator[socket.socket, None, None]:
    """Open a WebSocket for as long as the block lasts."""
    with dialled(server) as connection:
        connection.sendall(handshake())
        assert b" 101 " in head(connection)
        yield connection


def frame(opcode: int, payload: bytes = b"", *, is_last: bool = True) -> bytes:
    length = len(payload)
    extended = b"" if length < 126 else length.to_bytes(2 if length < 65536 else 8, "big")
    mark = {0: length, 2: 126, 8: 127}[len(extended)]
    return bytes([is_last << 7 | opcode, 0x80 | mark]) + extended + bytes(4) + payload


def head(connection: socket.socket) -> bytes:
    """Return an answer up to the end of its headers, and not a byte more."""
    received = b""
    while not received.endswith(b"\r\n\r\n"):
        byte = connection.recv(1)
        assert byte, f"it ended after {received!r}"
        received += byte
    return received


def rest(connection: socket.socket) -> bytes:
    """Return all that comes until the server ends the connection, however it does."""
    received = bytearray()
    with suppress(ConnectionError):
        while piece := connection.recv(65536):
            received += piece
    return bytes(received)


def pour(connection: socket.socket, data: bytes) -> None:
    """Send until all is sent, or nobody takes it any more."""
    with suppress(ConnectionError):
        connection.sendall(data)
