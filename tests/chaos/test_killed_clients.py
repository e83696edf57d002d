"""Thousands of clients that are killed, in every phase of what they do: the server has all back."""

import json
import random
import socket
import struct
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

from tests import raw
from tests.chaos.siege import Besieged, besieged, nothing_kept, scaled
from tests.servers import DEADLINE_S

pytestmark = pytest.mark.slow  # 5,000 clients at full scale

NUM_KILLS = 5_000
NUM_CLIENTS = 8
BODY = json.dumps({"input": "Hello there. " * 400, "response_format": "wav"}).encode()
WHOLE = json.dumps({"input": "Hello there. " * 400, "stream": False}).encode()
HEAD = "POST {} HTTP/1.1\r\nHost: a\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n"
SPEECH = HEAD.format("/v1/audio/speech", "application/json", len(BODY)).encode()
FORM = HEAD.format("/v1/audio/voices", "multipart/form-data; boundary=b", 2**20).encode()
PART = b'--b\r\nContent-Disposition: form-data; name="audio_sample"; filename="a"\r\n\r\n'
_RESET = struct.pack("ii", 1, 0)


def message(**members: object) -> bytes:
    return raw.frame(raw.TEXT, json.dumps(members).encode())


def connecting(seed: random.Random, connection: socket.socket) -> None:
    """Do nothing more."""


def in_the_headers(seed: random.Random, connection: socket.socket) -> None:
    connection.sendall(SPEECH[: seed.randrange(1, len(SPEECH))])


def in_the_body(seed: random.Random, connection: socket.socket) -> None:
    connection.sendall(SPEECH + BODY[: seed.randrange(len(BODY))])


def in_a_form(seed: random.Random, connection: socket.socket) -> None:
    connection.sendall(FORM + PART + bytes(seed.randrange(2**18)))


def before_the_first_audio(seed: random.Random, connection: socket.socket) -> None:
    connection.sendall(SPEECH + BODY)


def in_the_stream(seed: random.Random, connection: socket.socket) -> None:
    connection.sendall(SPEECH + BODY)
    raw.head(connection)
    for _ in range(seed.randrange(1, 8)):
        connection.recv(4096)


def before_a_whole_file(seed: random.Random, connection: socket.socket) -> None:
    head = HEAD.format("/v1/audio/speech", "application/json", len(WHOLE)).encode()
    connection.sendall(head + WHOLE)


def in_a_handshake(seed: random.Random, connection: socket.socket) -> None:
    handshake = raw.handshake()
    connection.sendall(handshake[: seed.randrange(1, len(handshake) + 1)])


def in_a_frame(seed: random.Random, connection: socket.socket) -> None:
    connection.sendall(raw.handshake())
    raw.head(connection)
    frame = message(type="input.text", text="Hello there.")
    connection.sendall(frame[: seed.randrange(1, len(frame))])


def in_the_text_of_a_websocket(seed: random.Random, connection: socket.socket) -> None:
    connection.sendall(raw.handshake())
    raw.head(connection)
    connection.sendall(message(type="session.config", stream_audio=True))
    connection.sendall(message(type="input.text", text="Hello there. ") * seed.randint(1, 6))


def in_the_stream_of_a_websocket(seed: random.Random, connection: socket.socket) -> None:
    connection.sendall(raw.handshake())
    raw.head(connection)
    connection.sendall(message(type="session.config", stream_audio=True))
    # More audio than is read below: nobody waits for what never comes.
    connection.sendall(message(type="input.text", text="Hello there. " * 6) * 20)
    connection.sendall(message(type="input.done"))
    for _ in range(seed.randrange(1, 8)):
        connection.recv(4096)


PHASES: list[Callable[[random.Random, socket.socket], None]] = [
    *(connecting, in_the_headers, in_the_body, in_a_form, before_the_first_audio),
    *(in_the_stream, before_a_whole_file, in_a_handshake, in_a_frame),
    *(in_the_text_of_a_websocket, in_the_stream_of_a_websocket),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Besieged, None, None]:
    with besieged(tmp_path_factory.mktemp("killed")) as server:
        for phase in PHASES:  # what is made on first use is there
            kill(server.port, phase, random.Random(0))
        server.speak()
        yield server


def kill(
    port: int,
    phase: Callable[[random.Random, socket.socket], None],
    seed: random.Random,
) -> None:
    """Connect, get to a phase, and end as a killed process does, or one whose machine is gone."""
    with socket.create_connection(("127.0.0.1", port), timeout=DEADLINE_S) as connection:
        phase(seed, connection)
        if seed.random() < 0.5:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        elif seed.random() < 0.5:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_WR)


def test_clients_killed_in_every_phase_leave_nothing(server: Besieged) -> None:
    num_kills = scaled(NUM_KILLS)

    def kills(number: int) -> None:
        seed = random.Random(number)
        for turn in range(number, num_kills, NUM_CLIENTS):
            kill(server.port, PHASES[turn % len(PHASES)], seed)

    with (
        nothing_kept(server, "killed clients", num_kills),
        ThreadPoolExecutor(NUM_CLIENTS) as pool,
    ):
        for work in [pool.submit(kills, number) for number in range(NUM_CLIENTS)]:
            work.result()
    server.speak()
    assert server.failures() == 0, "a client that leaves is no failure of the server"
