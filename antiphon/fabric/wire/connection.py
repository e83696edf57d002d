"""Connection between two processes: a handshake, then frames of messages in both directions.

Messages of one iteration of the event loop leave in one write.
"""

import asyncio
from collections.abc import Callable, Hashable
from typing import TypeAlias, cast

from antiphon.fabric.wire.frames import PING, FrameReader, FrameWriter, WireLimits
from antiphon.fabric.wire.handshake import Handshake, HandshakeError
from antiphon.fabric.wire.messages import Message, MessageKind, encode
from antiphon.fabric.wire.safe_pickle import ForeignDataError

Received: TypeAlias = Callable[[Message], None]
Lost: TypeAlias = Callable[[str], None]
"""Called once, with the reason, when a connection has ended."""


class WireConnection(asyncio.BufferedProtocol):
    """One side of a connection.

    Attributes:
        ready: set when the handshake has succeeded; the error if it has not.
        gone: set when nothing of it is left, its socket included.
    """

    def __init__(
        self,
        handshake: Handshake,
        *,
        proved: Callable[[], None],
        received: Received,
        lost: Lost,
        limits: WireLimits | None = None,
    ) -> None:
        """Prepare one side.

        Args:
            proved: called when the other side has proved itself, before anything is received.
            received: called with each message; must not raise.
            lost: called once when the connection has ended.
            limits: default: those of `WireLimits`.
        """
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.gone = asyncio.Event()
        self.num_writes = 0
        self._loop = asyncio.get_running_loop()
        self._limits = limits or WireLimits()
        self._max_bytes = self._limits.max_message_bytes
        self._handshake: Handshake | None = handshake
        self._num_awaited = 0  # bytes that the handshake needs next
        self._proved = proved
        self._received = received
        self._lost = lost
        self._transport: asyncio.Transport | None = None
        # From now on, since a connection whose TLS fails is never made.
        self._timer = self._loop.call_later(self._limits.handshake_s, self._handshake_is_late)
        self._reason = ""
        self._inbox = FrameReader(self._limits)
        self._outbox = FrameWriter(self._limits)
        self._is_flush_planned = False
        self._is_paused = False
        self._has_received = self._has_sent = False
        self._silent_s = 0.0

    @property
    def is_silent(self) -> bool:
        """Whether nothing has come from the other side for as long as it may take."""
        return self._silent_s >= self._limits.silence_s

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._transport is not None and not self._reason

    @property
    def is_proved(self) -> bool:
        """Whether the other side has proved itself."""
        return self._handshake is None

    def send(
        self, kind: MessageKind, id: int, value: object = None, *, order: Hashable = None
    ) -> None:
        """Send a message at the end of this turn of the loop; does nothing once it is closed.

        Args:
            id: id of the call or stream; 0 for a notice.
            order: messages that have it in common arrive in the order in which they were sent;
                default: those of the same id.

        Raises:
            ForeignDataError: the value must not cross, or is too large.
        """
        if self._transport is None or self._reason:
            return
        num_bytes, pieces = encode(kind, id, value)
        if num_bytes > self._max_bytes:
            raise ForeignDataError(f"a message of {num_bytes} bytes is too large")
        self._outbox.add(num_bytes, pieces, id if order is None else order)
        if not self._is_flush_planned:
            self._is_flush_planned = True
            self._loop.call_soon(self._flush)

    def close(self, reason: str = "It was closed.") -> None:
        """End the connection; what has been sent in this turn still leaves."""
        if self._reason:
            return
        self._flush()
        self._end(reason)
        if self._transport is not None:
            self._transport.close()
        else:
            self.gone.set()

    def abort(self, reason: str) -> None:
        self._end(reason)
        if self._transport is None:
            self.gone.set()
        elif not self.gone.is_set():  # asyncio's raises if it was lost when its last bytes had left
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._transport.set_write_buffer_limits(high=4 * self._limits.max_frame_bytes)
        if self._reason:  # it was refused before it was made
            self._transport.abort()
            return
        self._take_step(None)

    def connection_lost(self, error: Exception | None) -> None:
        why = str(error) if error else "the other side has closed it"
        if self._handshake is not None:
            why += " in the handshake (has it another ANTIPHON_CLUSTER_TOKEN?)"
        self._end(f"The connection broke: {why}.")
        self.gone.set()

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        if self._outbox.has_large:
            self._flush()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._inbox.room()

    def buffer_updated(self, num_bytes: int) -> None:
        self._has_received = True
        try:
            self._inbox.took(num_bytes)
            while self._handshake is not None:
                data = self._inbox.exactly(self._num_awaited)
                if data is None:
                    return
                self._take_step(data)
            for message in self._inbox.messages():
                self._received(message)
                if self._reason:
                    return
        except HandshakeError as error:
            self.abort(f"The other side was refused: {error}.")
        except ForeignDataError as error:
            self.abort(f"The other side sent what no process of this cluster sends: {error}.")

    def _take_step(self, data: bytes | None) -> None:
        assert self._handshake is not None
        assert self._transport is not None
        step = next(self._handshake) if data is None else self._handshake.send(data)
        if step.send:
            self._transport.write(step.send)
        self._num_awaited = step.num_bytes
        if not step.num_bytes:
            self._handshake = None
            if self.ready.cancelled():  # in this turn of the loop, before its waiter could abort
                return self.abort("The caller gave up.")
            self._timer.cancel()
            self._plan_look()
            self.ready.set_result(None)
            self._proved()

    def _handshake_is_late(self) -> None:
        self.abort("The handshake took too long.")

    def _plan_look(self) -> None:
        due_s = self._loop.time() + self._limits.ping_s
        self._timer = self._loop.call_at(due_s, self._look, due_s)

    def _look(self, due_s: float) -> None:
        """Give a sign of life, and see whether there was one from the other side."""
        if not self._has_sent and self._transport is not None:
            self._transport.write(PING)
        # A loop that was held up may not have read what has come: that is no silence.
        is_late = self._loop.time() - due_s > self._limits.ping_s
        is_silent = not self._has_received and not is_late
        self._silent_s = self._silent_s + self._limits.ping_s if is_silent else 0.0
        self._has_received = self._has_sent = False
        if self.is_silent:
            self.abort(f"No data from the peer for {self._silent_s:g} seconds.")
        else:
            self._plan_look()

    def _flush(self) -> None:
        """Write what this turn has sent, and one part of what is large."""
        self._is_flush_planned = False
        if not self.is_open:
            return
        assert self._transport is not None
        if pieces := self._outbox.take(with_part=not self._is_paused):
            self._has_sent = True
            self.num_writes += 1
            self._transport.writelines(pieces)
        if self._outbox.has_large and not self._is_paused and not self._is_flush_planned:
            self._is_flush_planned = True
            self._loop.call_soon(self._flush)

    def _end(self, reason: str) -> None:
        if self._reason:
            return
        self._reason = reason
        self._timer.cancel()
        if not self.ready.done():
            self.ready.set_exception(ConnectionError(reason))
            self.ready.exception()  # retrieved, so that the loop does not report it as lost
        self._lost(reason)
