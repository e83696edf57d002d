"""Floods and bursts: probes are answered throughout, nobody is cut, and then all is free."""

import json
import re
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

import httpx
import pytest

from tests import raw
from tests.chaos.siege import many_files, pinged
from tests.cli.front_end_servers import popen
from tests.cli.test_serve import serving
from tests.servers import DEADLINE_S, wait_until

pytestmark = pytest.mark.slow

JSON = "Host: a\r\nContent-Type: application/json\r\n"
ATTACKERS = 4
PROBE_PAUSE_S = 0.02
Attack = Callable[["Target", ExitStack], None]


@dataclass
class Target:
    process: "subprocess.Popen[str]"
    url: str
    port: int
    statuses: list[int] = field(default_factory=list)

    def dial(self, stack: ExitStack) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=DEADLINE_S)
        return stack.enter_context(connection)

    def metric(self, name: str) -> float:
        found = re.search(rf"^{name} (\S+)$", httpx.get(f"{self.url}/metrics").text, re.MULTILINE)
        assert found, name
        return float(found[1])

    @contextmanager
    def probed(self) -> Generator[None, None, None]:
        """Ask for all that is never to be refused, on a new connection each, until the end."""
        is_over = threading.Event()

        def probe() -> None:
            while not is_over.is_set():
                for path in ("/health", "/ready", "/metrics"):
                    self.statuses.append(httpx.get(self.url + path, timeout=DEADLINE_S).status_code)
                time.sleep(PROBE_PAUSE_S)

        with ThreadPoolExecutor(1) as pool:
            probing = pool.submit(probe)
            try:
                yield
                num_before = len(self.statuses)
                wait_until(lambda: probing.done() or len(self.statuses) > num_before + 3)
            finally:
                is_over.set()
            probing.result()


@pytest.fixture(scope="module")
def target() -> Generator[Target, None, None]:
    with many_files(), serving(popen, "--log-level", "error") as (process, url):
        wait_until(lambda: httpx.get(f"{url}/ready").status_code == 200)
        yield Target(process, url, int(url.rpartition(":")[2]))


def flood(first: bytes, frames: bytes) -> Attack:
    """Return an attack that sends frames on WebSockets, opened anew whenever they are closed."""

    def attack(target: Target, stack: ExitStack) -> None:
        for _ in range(5):
            connection = target.dial(stack)
            connection.sendall(raw.handshake())
            raw.head(connection)
            raw.pour(connection, first + frames * 100_000)
            raw.rest(connection)

    return attack


def tiny_messages(target: Target, stack: ExitStack) -> None:
    connection = target.dial(stack)
    connection.sendall(raw.handshake() + raw.frame(raw.TEXT, b"{}") * 5_000)
    connection.shutdown(socket.SHUT_RDWR)


def sent_ahead(target: Target, stack: ExitStack) -> None:
    connection = target.dial(stack)
    connection.settimeout(1.0)
    with suppress(TimeoutError):
        connection.sendall(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n" * 50_000)


def wrong_handshakes(target: Target, stack: ExitStack) -> None:
    wrong = ["".join(f"X-{i}: a\r\n" for i in range(140)), f"X: {'a' * 9000}\r\n"]
    wrong.append("Content-Length: 5\r\n")
    for number in range(1100 // ATTACKERS):
        target.dial(stack).sendall(raw.handshake(more_headers=wrong[number % 3]))


def silence(target: Target, stack: ExitStack) -> None:
    for _ in range(1500 // ATTACKERS):
        target.dial(stack)


def deaf(target: Target, stack: ExitStack) -> None:
    body = json.dumps({"input": "Hello there. " * 5000, "response_format": "wav"}).encode()
    for _ in range(4):
        head = f"POST /v1/audio/speech HTTP/1.1\r\n{JSON}Content-Length: {len(body)}\r\n\r\n"
        target.dial(stack).sendall(head.encode() + body)


def heavy_json(target: Target, stack: ExitStack) -> None:
    for path in ("speech", "speech/batch", "speech/jobs", "voices"):
        body = b'{"input": "Hi.", "a": [' + b"[]," * 5_000_000 + b"1]}"
        head = f"POST /v1/audio/{path} HTTP/1.1\r\n{JSON}Content-Length: {len(body)}\r\n\r\n"
        connection = target.dial(stack)
        connection.sendall(head.encode() + body)
        assert raw.head(connection).startswith(b"HTTP/1.1 400")


def refused_uploads(target: Target, stack: ExitStack) -> None:
    for path, status in (("/nowhere", 404), ("/health", 405), ("/v1/audio/speech", 413)):
        num_bytes = 32 * 2**20 if status == 413 else 8 * 2**20
        head = f"POST {path} HTTP/1.1\r\n{JSON}Content-Length: {num_bytes}\r\n\r\n"
        connection = target.dial(stack)
        connection.sendall(head.encode() + bytes(num_bytes))
        assert raw.head(connection).startswith(f"HTTP/1.1 {status} ".encode())


ATTACKS: dict[str, Attack] = {
    "pings": flood(b"", raw.frame(raw.PING)),
    "pongs": flood(b"", raw.frame(raw.PONG)),
    "fragments": flood(
        raw.frame(raw.TEXT, is_last=False), raw.frame(raw.CONTINUATION, is_last=False)
    ),
    **{
        each.__name__: each
        for each in (
            *(tiny_messages, sent_ahead, wrong_handshakes, silence, deaf),
            *(heavy_json, refused_uploads),
        )
    },
}


@pytest.mark.parametrize("name", ATTACKS)
def test_probes_are_answered_and_nothing_stays(target: Target, name: str) -> None:
    with (
        pinged(target.port, name),
        ExitStack() as stack,
        target.probed(),
        ThreadPoolExecutor(ATTACKERS) as pool,
    ):
        for attacking in [pool.submit(ATTACKS[name], target, stack) for _ in range(ATTACKERS)]:
            attacking.result()
    assert set(target.statuses) == {200}
    wait_until(lambda: target.metric("antiphon_connections_open") <= 1)
    wait_until(lambda: target.metric("antiphon_http_requests_open") <= 1)
    wait_until(lambda: target.metric("antiphon_sockets_open") == 0)
    answer = httpx.post(f"{target.url}/v1/audio/speech", json={"input": "Still here."})
    assert answer.status_code == 200


NUM_AT_ONCE = 1500
"""More than there may be idle connections of one address, fewer than wait in a listening socket."""


def test_a_burst_upon_a_server_that_had_no_time_is_answered_to_the_last(target: Target) -> None:
    body = b'{"input": "Hello."}'
    head = f"POST /v1/audio/speech HTTP/1.1\r\n{JSON}Content-Length: {len(body)}\r\n\r\n"
    with ExitStack() as stack:
        target.process.send_signal(signal.SIGSTOP)
        clients = [target.dial(stack) for _ in range(NUM_AT_ONCE)]
        for client in clients:
            client.sendall(head.encode() + body)
        target.process.send_signal(signal.SIGCONT)
        statuses = {raw.head(client).split()[1] for client in clients}
    assert b"200" in statuses
    assert statuses <= {b"200", b"429"}
    wait_until(lambda: target.metric("antiphon_connections_open") <= 1)
