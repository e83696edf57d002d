"""Clients that leave in the middle of what they send are no failures of the server."""

import json
import logging
import socket
import struct
from collections.abc import Callable, Generator
from typing import TypeAlias

import pytest
from starlette.routing import WebSocketRoute

from antiphon.api.app import create_app
from antiphon.api.middleware.base import REQUEST_ID_HEADER
from tests import raw
from tests.api.fuzzing import Operation, document, operations
from tests.chaos.long_messages import SCRIPTS
from tests.chaos.long_texts import example
from tests.servers import DEADLINE_S, TOY, RunningServer, wait_until

APP = create_app(TOY)
OPERATIONS = operations(document())
SOCKETS = [route.path for route in APP.routes if isinstance(route, WebSocketRoute)]
FAILURES = "code", "internal_error"
Metric: TypeAlias = Callable[[str, str], float]
NUM_TIMES = 2
"""A race with the server: it may or may not have noticed yet when it answers."""


@pytest.fixture(scope="module")
def metric(server: RunningServer) -> Metric:

    async def read(label: str, value: str) -> float:
        families = server.state.guards.metrics.registry.collect()
        samples = (sample for family in families for sample in family.samples)
        return sum(sample.value for sample in samples if sample.labels.get(label) == value)

    return lambda *label: server.run(read(*label))


@pytest.fixture(scope="module")
def num_failures(metric: Metric) -> list[float]:
    """Return how many failures there have been, in a list that each test brings up to date."""
    return [metric(*FAILURES)]


@pytest.fixture(autouse=True)
def no_failure(
    server: RunningServer,
    metric: Metric,
    num_failures: list[float],
    caplog: pytest.LogCaptureFixture,
) -> Generator[None, None, None]:
    caplog.set_level(logging.ERROR)
    yield
    wait_until(lambda: server.state.guards.connections.num_open["http"] == 0)
    wait_until(lambda: server.state.guards.connections.num_open["websocket"] == 0)
    num_failures.append(metric(*FAILURES))
    assert num_failures.pop(0) == num_failures[0]
    assert not [each.getMessage() for each in caplog.records]


def leave(connection: socket.socket) -> None:
    """Reset a connection: the server's next write fails, and so does its next read."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def dial(server: RunningServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=DEADLINE_S)


def body_of(operation: Operation) -> tuple[str, bytes]:
    content = operation.description.get("requestBody", {}).get("content", {})
    if "multipart/form-data" in content and "application/json" not in content:
        part = b'--x\r\nContent-Disposition: form-data; name="input"\r\n\r\nHello.\r\n--x--\r\n'
        return "multipart/form-data; boundary=x", part
    schema = operation.json_schema
    value = {} if schema is None else example(operation, schema)
    return "application/json", json.dumps(value).encode()


def head_of(operation: Operation, type: str, num_bytes: int) -> bytes:
    path = operation.path.replace("{voice_id}", "default").replace("{id}", "nothing")
    lines = (
        f"{operation.method.upper()} {path.replace('{', '').replace('}', '')} HTTP/1.1",
        *("Host: a", f"Content-Type: {type}", f"Content-Length: {num_bytes}"),
        f"{REQUEST_ID_HEADER}: leaving",
    )
    return "\r\n".join([*lines, "", ""]).encode()


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_during_a_request(server: RunningServer, operation: Operation) -> None:
    type, body = body_of(operation)
    head = head_of(operation, type, len(body))
    for sent in (head[:-4], head, head + body[: len(body) // 2], head + body):
        for _ in range(NUM_TIMES):
            connection = dial(server)
            connection.sendall(sent)
            leave(connection)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda each: each.name)
def test_once_the_server_waits_for_the_body(
    server: RunningServer, metric: Metric, operation: Operation
) -> None:
    type, body = body_of(operation)
    if operation.method != "post" or "requestBody" not in operation.description:
        pytest.skip("has no body")
    # Clients that left in an earlier test are counted first.
    wait_until(lambda: server.state.guards.connections.num_open["http"] == 0)
    before = metric("status", "499")
    connection = dial(server)
    connection.sendall(head_of(operation, type, len(body)) + body[: len(body) // 2])
    wait_until(lambda: server.state.guards.connections.num_open["http"] > 0)
    leave(connection)
    wait_until(lambda: metric("status", "499") > before)


@pytest.mark.parametrize("path", SOCKETS)
@pytest.mark.parametrize("waits", [False, True])
def test_during_a_conversation(server: RunningServer, path: str, waits: bool) -> None:
    handshake = raw.handshake(path.replace("{voice_id}", "default"))
    (scripts,) = (
        scripts
        for known, scripts in SCRIPTS.items()
        if known.partition("?")[0].replace("default", "{voice_id}") == path and "chat" not in known
    )
    messages = [json.dumps(each).encode() for each in next(iter(scripts.values()))("Hi there.")]
    whole = b"".join(raw.frame(raw.TEXT, each) for each in messages)
    for sent in (b"", whole[:1], whole[:20], whole, whole + raw.frame(raw.TEXT, b"{")[:3]):
        for _ in range(NUM_TIMES):
            connection = dial(server)
            if waits:
                connection.sendall(handshake)
                raw.head(connection)
                connection.sendall(sent)
            else:
                connection.sendall(handshake + sent)
            leave(connection)
