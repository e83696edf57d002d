"""A WebSocket client for tests: messages out, messages and audio in."""

import json
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.servers import DEADLINE_S, RunningServer

Received: TypeAlias = "dict[str, Any] | bytes"


class Client:
    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    def send(self, type: str | None = None, **members: Any) -> None:
        named = {} if type is None else {"type": type}
        self.connection.send(json.dumps({**named, **members}))

    def receive(self) -> Received:
        received = self.connection.recv(timeout=DEADLINE_S)
        if isinstance(received, bytes):
            return received
        message = json.loads(received)
        assert isinstance(message, dict)
        return message

    def until(self, is_last: str | Callable[[Received], bool]) -> list[Received]:
        found: list[Received] = []
        while True:
            found.append(self.receive())
            last = found[-1]
            if callable(is_last):
                if is_last(last):
                    return found
            elif not isinstance(last, bytes) and last.get("type") == is_last:
                return found

    def rest(self) -> list[Received]:
        """Return all that comes until the server ends the connection."""
        found: list[Received] = []
        while True:
            try:
                found.append(self.receive())
            except ConnectionClosed:
                return found

    @property
    def close_code(self) -> int | None:
        return self.connection.close_code


@contextmanager
def connected(
    server: RunningServer, path: str, headers: Mapping[str, str] | None = None, **more: Any
) -> Generator[Client, None, None]:
    """Open a connection for as long as the block lasts.

    A client with messages that nothing takes does not see that its end was acknowledged, and waits.
    """
    url = f"ws://127.0.0.1:{server.port}{path}"
    options = {"max_size": None, "proxy": None, "close_timeout": 1, **more}
    with connect(url, additional_headers=dict(headers or {}), **options) as connection:
        yield Client(connection)


def audio(received: Sequence[Received]) -> bytes:
    return b"".join(each for each in received if isinstance(each, bytes))


def messages(received: Sequence[Received], type: str | None = None) -> list[dict[str, Any]]:
    found = [each for each in received if not isinstance(each, bytes)]
    return [each for each in found if type is None or each.get("type") == type]
