"""The head of an answer leaves in one write with the body that follows at once."""

import asyncio

from antiphon.api.transport.connection import Connection, Phase, Timeouts
from antiphon.api.transport.connections import Connections
from antiphon.api.transport.feed_queue import FeedQueue
from antiphon.config import LimitSettings
from antiphon.telemetry.metrics import Metrics

HEAD = b"HTTP/1.1 200 OK\r\n\r\n"


class Pipe(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def get_write_buffer_size(self) -> int:
        return 0

    def close(self) -> None:
        self.written.append(b"closed")


class Busy(asyncio.Protocol):
    slice_bytes = 1
    num_body_bytes = 0
    phase = Phase.BUSY
    takes_more = True


async def test_a_head_leaves_with_what_follows_in_its_turn() -> None:
    metrics, pipe = Metrics(), Pipe()
    connections = Connections(LimitSettings(), metrics)
    connection = Connection(Busy(), Timeouts(connections, metrics, 10, 10, FeedQueue()))
    connection.connection_made(pipe)
    connection.write(HEAD)
    connection.write(b"audio")
    connection.write(b"more")
    assert pipe.written == [HEAD + b"audio", b"more"]
    connection.write(HEAD)
    await asyncio.sleep(0)
    assert pipe.written[2:] == [HEAD], "nothing has followed"
    connection.write(HEAD)
    connection.close()
    assert pipe.written[3:] == [HEAD, b"closed"]
    connection.connection_lost(None)
