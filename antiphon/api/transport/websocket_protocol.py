"""uvicorn's WebSocket implementation, with bounds on what carries nothing.

Messages are taken in at a pace (`sockets`); pings, pongs and fragments never get that far.
"""

from http import HTTPStatus
from typing import Any, cast

from uvicorn._types import ASGIReceiveEvent, ASGISendEvent, WebSocketScope
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.exceptions import HeaderLineTooLong, RequestLineTooLong, TooManyHeaders
from websockets.frames import CloseCode, Frame, Opcode
from websockets.protocol import OPEN
from websockets.server import ServerProtocol

from antiphon.api.middleware.memory_budget import LEASE, REFUSALS, Lease
from antiphon.api.transport.connection import Connection, Phase

SLICE_BYTES = 4 * 1024
CONTROL_FRAMES_PER_S = 20
BURST_CONTROL_FRAMES = 100
UNCOUNTED_BYTES = 64 * 1024
"""Of what a client has yet to read: as much as a transport holds before its sender waits."""
MAX_FRAGMENTS = 4096
"""Of one message."""
_CONTROL = (Opcode.PING, Opcode.PONG)
_TOO_LARGE = (HeaderLineTooLong, RequestLineTooLong, TooManyHeaders)


class _BoundedFrames(ServerProtocol):
    """Ends connections that send more frames without a message than anybody needs."""

    now_s = 0.0

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._num_fragments = self._num_fragment_bytes = 0
        self._next_control_s = 0.0
        self._last_frame: Frame | None = None

    def drop_last_frame(self) -> None:
        """Free the payload of the last frame, which the parser refers to until the next comes."""
        if self._last_frame is not None:
            self._last_frame.data = b""
            self._last_frame = None

    @property
    def num_unfinished_bytes(self) -> int:
        """Of a message that has not been sent to its end."""
        return self._num_fragment_bytes + len(self.reader.buffer)

    def recv_frame(self, frame: Frame) -> None:
        self._last_frame = frame
        if frame.opcode in _CONTROL:
            if self._is_too_many_control():
                self.fail(CloseCode.POLICY_VIOLATION, "too many pings or pongs")
                return
        elif frame.fin:
            self._num_fragments = self._num_fragment_bytes = 0
        else:
            self._num_fragments += 1
            self._num_fragment_bytes += len(frame.data)
        super().recv_frame(frame)
        if self._num_fragments > MAX_FRAGMENTS:
            self.fail(CloseCode.POLICY_VIOLATION, "too many fragments")

    def _is_too_many_control(self) -> bool:
        earliest_s = self.now_s - BURST_CONTROL_FRAMES / CONTROL_FRAMES_PER_S
        self._next_control_s = max(self._next_control_s, earliest_s) + 1 / CONTROL_FRAMES_PER_S
        return self._next_control_s > self.now_s


def _num_payload_bytes(message: ASGISendEvent) -> int:
    """Return how many bytes a message for the client has at most."""
    if message["type"] != "websocket.send":
        return 0
    text = message.get("text") or ""
    return len(message.get("bytes") or b"") + len(text) * (1 if text.isascii() else 4)


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """A WebSocket whose client can send nothing for nothing."""

    slice_bytes = SLICE_BYTES
    num_body_bytes = 0
    takes_more = True

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.conn = _BoundedFrames(
            max_size=self.config.ws_max_size, logger=self.conn.logger, extensions=None
        )
        self.scope = cast(WebSocketScope, {})  # until there is a handshake
        self._num_waiting_bytes = self._num_counted_bytes = 0

    @property
    def phase(self) -> str:
        if self.conn.eof_sent:
            return Phase.REST  # what still comes is not listened to
        return Phase.BUSY if self.handshake_initiated else Phase.HEAD

    def data_received(self, data: bytes) -> None:
        assert isinstance(self.conn, _BoundedFrames)
        self.conn.now_s = self.loop.time()
        super().data_received(data)
        self.conn.drop_last_frame()
        try:
            self._count(self._num_held_bytes)
        except REFUSALS:
            self.conn.fail(CloseCode.TRY_AGAIN_LATER, "there is no memory for the message")
        if self.conn.handshake_exc is not None:
            self._refuse_handshake(self.conn.handshake_exc)
        elif self.conn.eof_sent and self.conn.close_sent and not self.transport.is_closing():
            self.handle_parser_exception()

    def shutdown(self) -> None:
        if self.handshake_complete and self.conn.state is not OPEN:
            # The client's close or ours is under way: uvicorn would fail, and end no connection
            # after this one.
            self.stop_keepalive()
            self.transport.close()
        else:
            super().shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.conn.parser.close()  # its frame refers to `conn`

    def send_receive_event_to_app(self) -> None:
        self._num_waiting_bytes += sum(map(len, self.frames))
        super().send_receive_event_to_app()

    async def send(self, message: ASGISendEvent) -> None:
        """Send, or raise `ClientDisconnected`; uvicorn raises a fault of the app in some states.

        It does so if the client has left, or was cut off, and the app has yet to receive that.
        """
        await self.writable.wait()
        is_closing = self.close_sent or self.transport.is_closing()
        if is_closing and message["type"] != "websocket.close":
            self.handshake_complete = True  # as when the connection is lost: none can follow
            raise ClientDisconnected
        num_bytes = _num_payload_bytes(message)
        if num_bytes > UNCOUNTED_BYTES:
            self._count(self._num_held_bytes + num_bytes)
        await super().send(message)
        self._count_less()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._count_less()

    async def receive(self) -> ASGIReceiveEvent:
        event = await super().receive()
        if event["type"] == "websocket.receive" and self.queue.empty():
            self._num_waiting_bytes = 0
            self._count_less()
        return event

    def _count_less(self) -> None:
        self._count(min(self._num_counted_bytes, self._num_held_bytes))

    @property
    def _num_held_bytes(self) -> int:
        """Of messages that are incomplete, wait to be followed, or have yet to be read."""
        assert isinstance(self.conn, _BoundedFrames)
        num_unread = max(0, self.transport.get_write_buffer_size() - UNCOUNTED_BYTES)
        return self.conn.num_unfinished_bytes + self._num_waiting_bytes + num_unread

    def _count(self, num_bytes: int) -> None:
        """Count so much for the connection, in place of what was counted.

        Raises:
            RequestTooLargeError, MemoryShareError, MemoryFullError: there is no room for more.
        """
        lease: Lease | None = cast(Any, self.scope).get(LEASE)
        if lease is None:
            return  # no handler has it yet
        if num_bytes > self._num_counted_bytes:
            lease.reserve(num_bytes - self._num_counted_bytes)
        else:
            lease.release(self._num_counted_bytes - num_bytes)
        self._num_counted_bytes = num_bytes

    def _refuse_handshake(self, reason: Exception) -> None:
        """Send the reason, which websockets does for some reasons only, and uvicorn for none."""
        self.conn.data_to_send()  # its own answer, if any, is dropped
        self.handshake_complete = self.close_sent = True
        is_large = isinstance(reason, _TOO_LARGE)
        cast(Connection, self.transport).refuse(
            HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if is_large else HTTPStatus.BAD_REQUEST,
            "The WebSocket handshake is too large or has a body, or it is no handshake.",
        )
