"""A client's connection, between the event loop's transport and uvicorn's protocols.

To uvicorn it is the transport. It reads in slices, so that no client holds the event loop with what
it sends at once; waits for requests, and for clients to read on, for a limited time; and closes so
that an answer reaches a client that is still sending.
"""

import asyncio
import json
import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Protocol, cast

from antiphon.api.transport.connections import Connections
from antiphon.api.transport.feed_queue import FeedQueue
from antiphon.api.transport.trailers import with_trailers
from antiphon.telemetry.metrics import Metrics

MAX_HEAD_BYTES = 64 * 1024
LINGER_S = 10.0
MAX_LINGER_BYTES = 64 * 1024 * 1024
"""How long, and how much, is read on of a body whose request has been answered."""
MIN_SENT_BYTES = 4096
"""Of what waits to be sent, so much has to go out in each `write_timeout_s`."""
MAX_UNSENT_BYTES = 128 * 1024
"""In the kernel, beside what is on its way; more waits here, where it is seen."""
_PROBES = tuple(
    f"{method} {path} ".encode() for method in ("GET", "HEAD") for path in ("/health", "/ready")
)
"""How requests begin that are answered before all others."""
_HEAD_BEGINS = b"HTTP/1.1 "
_NOTSENT_LOWAT = {"linux": 25, "darwin": 0x201}.get(sys.platform)


class Phase:
    """What a protocol is doing, as far as its connection has to know."""

    HEAD = "head"  # no request is under way
    BUSY = "busy"
    REST = "rest"  # the request has been answered, the rest of its body is still coming


class Inner(Protocol):
    """What uvicorn's protocols give beside asyncio's methods, with ours mixed in."""

    slice_bytes: int

    @property
    def num_body_bytes(self) -> int:
        """How many bytes of a body may be waited for, and be fed at once; 0: feed what comes."""

    @property
    def phase(self) -> str: ...

    @property
    def takes_more(self) -> bool:
        """Whether it may be fed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def data_received(self, data: bytes) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long clients are waited for, and what all connections share."""

    connections: Connections
    metrics: Metrics
    header_timeout_s: float
    write_timeout_s: float
    queue: FeedQueue


class _NoProtocol(asyncio.Protocol):
    """Stands for the protocol of a connection that was lost.

    What refers to what is cut there, so that a connection is freed at once: cycles would stay
    until a full garbage collection, which holds up every stream.
    """

    slice_bytes = num_body_bytes = 0
    phase = Phase.REST
    takes_more = False


_NO_PROTOCOL = _NoProtocol()


class Connection(asyncio.Protocol, asyncio.Transport):
    """Passes on what a transport reads, and what a protocol writes."""

    _transport: asyncio.Transport

    def __init__(self, inner: Inner, timeouts: Timeouts) -> None:
        super().__init__()
        self._inner = inner
        self._timeouts = timeouts
        self._loop = asyncio.get_running_loop()
        self._backlog = bytearray()
        self._is_paused = self._is_reading_off = self._is_feeding = False
        self._is_closing = self._is_lost = self._has_served = False
        self._num_head_bytes = self._num_rest_bytes = 0
        self._deadline: asyncio.TimerHandle | None = None
        self._deadline_of = ""
        self._write_check: asyncio.TimerHandle | None = None
        self._num_written = 0
        self._head = b""
        self.trailers: Sequence[tuple[bytes, bytes]] = ()  # of the answer that ends next

    # Callbacks of the event loop

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its type
        self._timeouts.queue.yield_to_accepts()
        peer = transport.get_extra_info("peername")
        host = str(peer[0]) if isinstance(peer, tuple) else ""
        _bound_kernel_buffer(self._transport)
        self._member = self._timeouts.connections.add(host, self.cut)
        self._inner.connection_made(self)
        self.look()

    def data_received(self, data: bytes) -> None:
        if self._is_closing:
            self._count_rest(len(data))
            return
        is_probe = not self._backlog and data.startswith(_PROBES)
        self._backlog += data
        if is_probe:
            self._feed()
        else:
            self._feed_later()

    def eof_received(self) -> bool | None:
        return None if self._is_closing else self._inner.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = self._is_closing = True
        self._backlog.clear()
        for timer in (self._deadline, self._write_check):
            if timer is not None:
                timer.cancel()
        self._timeouts.connections.remove(self._member)
        del self._member
        inner, self._inner = self._inner, _NO_PROTOCOL
        inner.connection_lost(exc)

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    # Reading: a slice at a time, and only while the protocol takes it

    def _feed(self) -> None:
        self._is_feeding = False
        if self._backlog and not self._is_closing and self._takes_more:
            num_body_bytes = self._inner.num_body_bytes
            size = max(self._inner.slice_bytes, num_body_bytes)
            piece = bytes(memoryview(self._backlog)[:size])
            del self._backlog[:size]
            self._num_head_bytes += max(0, len(piece) - num_body_bytes)
            self._count_rest(len(piece))
            self._inner.data_received(piece)
        self.look()
        self._feed_later()

    def _feed_later(self) -> None:
        if self._is_closing:
            self._backlog.clear()
        elif self._backlog and self._takes_more and not self._is_feeding:
            self._is_feeding = True
            self._timeouts.connections.busy(self._member)  # it waits for us, not for its client
            self._timeouts.queue.add(self._feed)
        self._switch_reading()

    @property
    def _takes_more(self) -> bool:
        return not self._is_paused and self._inner.takes_more

    def _switch_reading(self) -> None:
        # Every time that it is switched costs a turn of the loop.
        has_enough = len(self._backlog) >= max(1, self._inner.num_body_bytes)
        is_off = not self._is_closing and (self._is_paused or has_enough)
        if is_off != self._is_reading_off and not self._transport.is_closing():
            self._is_reading_off = is_off
            if is_off:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    def pause_reading(self) -> None:
        self._is_paused = True
        self._switch_reading()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._feed_later()

    def resume(self) -> None:
        """Go on after an answer: with what has come meanwhile, or with waiting for it."""
        self.look()
        self._feed_later()

    def is_reading(self) -> bool:
        return not self._is_paused and not self._is_closing

    # Waiting: for a request's head, or for the rest of its body once it has been answered

    def look(self) -> None:
        """See whether a request is under way; protocols call it when that has changed."""
        if self._is_lost:
            return
        phase = self._inner.phase
        if phase == Phase.BUSY and not self._is_closing:
            self._timeouts.connections.busy(self._member)
            self._wait("", 0)
            self._num_head_bytes = self._num_rest_bytes = 0
            self._has_served = True
            return
        if phase == Phase.REST:
            self._num_head_bytes = 0
            self._wait(phase, LINGER_S)
        elif not self._is_closing:
            # A connection that is kept alive is uvicorn's to close, until it is spoken on.
            is_kept = self._has_served and not self._num_head_bytes
            self._wait("" if is_kept else phase, self._timeouts.header_timeout_s)
            if self._num_head_bytes > MAX_HEAD_BYTES:
                self.refuse(
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "The headers are too large."
                )
        if not self._is_feeding:
            self._timeouts.connections.idle(self._member)

    def _wait(self, phase: str, timeout_s: float) -> None:
        if phase == self._deadline_of:
            return
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline_of = phase
        self._deadline = self._loop.call_later(timeout_s, self._is_late) if phase else None

    def _is_late(self) -> None:
        phase, self._deadline_of = self._deadline_of, ""
        if self._is_feeding:  # it waits for us, not for its client
            self._wait(phase, self._timeouts.header_timeout_s)
        elif phase == Phase.HEAD and not self._is_closing:
            self._num_head_bytes = 0  # the client has stopped sending
            self.refuse(HTTPStatus.REQUEST_TIMEOUT, "The headers took too long to arrive.")
        else:
            self.cut("lingering")

    def _count_rest(self, num_bytes: int) -> None:
        self._num_rest_bytes += num_bytes
        if self._num_rest_bytes > MAX_LINGER_BYTES and self._inner.phase != Phase.BUSY:
            self.cut("lingering")

    def refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer what never became a request, in the shape of all errors, and end."""
        code = status.phrase.lower().replace(" ", "_")
        self._timeouts.metrics.errors.labels(code, "start").inc()
        error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
        body = json.dumps({"error": error}).encode()
        head = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\n"
            "X-Content-Type-Options: nosniff\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.write(head.encode() + body)
        self.close()

    # Writing: a client that stops reading is cut

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_closing:
            return
        if self.trailers and len(ended := with_trailers(bytes(data), self.trailers)) > len(data):
            data, self.trailers = ended, ()
        if self._head:
            data, self._head = self._head + data, b""
        elif data[: len(_HEAD_BEGINS)] == _HEAD_BEGINS:  # it leaves with what follows in this turn
            self._head = bytes(data)
            self._loop.call_soon(self._write_head)
            return
        self._transport.write(data)
        self._num_written += len(data)
        if self._write_check is None and self._transport.get_write_buffer_size():
            self._watch_writes()

    def _write_head(self) -> None:
        if self._head:
            self.write(b"")

    def _watch_writes(self) -> None:
        num_sent = self._num_written - self._transport.get_write_buffer_size()
        goal = min(self._num_written, num_sent + MIN_SENT_BYTES)
        self._write_check = self._loop.call_later(
            self._timeouts.write_timeout_s, self._check_writes, goal
        )

    def _check_writes(self, goal: int) -> None:
        self._write_check = None
        num_waiting = self._transport.get_write_buffer_size()
        if num_waiting and self._num_written - num_waiting < goal:
            self.cut("unread")
        elif num_waiting:
            self._watch_writes()

    # Ending

    def close(self) -> None:
        """End cleanly; what a client is still sending is read on, or it would lose the answer."""
        if self._is_closing:
            return
        self._write_head()
        self._is_closing = True
        phase = self._inner.phase
        if phase == Phase.REST or (phase == Phase.HEAD and self._num_head_bytes):
            self._backlog.clear()
            self._switch_reading()
            if not self._transport.is_closing():
                self._transport.write_eof()
            self._wait(Phase.REST, LINGER_S)
        else:
            self._transport.close()
        if not self._is_lost:
            self._timeouts.connections.idle(self._member)

    def abort(self) -> None:
        self._is_closing = True
        self._transport.abort()

    def cut(self, reason: str) -> None:
        """End at once; nothing of what was not sent is."""
        self._timeouts.metrics.connections_cut.labels(reason).inc()
        self.abort()

    def is_closing(self) -> bool:
        return self._is_closing or self._transport.is_closing()

    # What else a transport can do

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._inner = protocol  # type: ignore[assignment] # uvicorn's, made from our classes
        self.look()

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._inner  # type: ignore[return-value]

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "socket":
            return default  # uvicorn would ask it for the addresses, by a system call each
        info = self._transport.get_extra_info(name, default)
        is_address = name in ("peername", "sockname") and isinstance(info, tuple)
        return info[:2] if is_address else info  # of IPv6 too

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()


def _bound_kernel_buffer(transport: asyncio.Transport) -> None:
    """Bound the kernel's send buffer, so that a slow reader is noticed."""
    raw = transport.get_extra_info("socket")
    if raw is not None and _NOTSENT_LOWAT is not None and raw.family != socket.AF_UNIX:
        raw.setsockopt(socket.IPPROTO_TCP, _NOTSENT_LOWAT, MAX_UNSENT_BYTES)
