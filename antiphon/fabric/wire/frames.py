"""Messages in frames: several small ones in one, or a part of a large one in each.

A message that is larger than a frame is sent in parts, of which one goes with each write, so that
smaller ones pass it. Only messages of the same order wait for each other.
"""

import struct
from collections import Counter, deque
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from antiphon.fabric.wire.messages import Buffer, Message, decode, length_at
from antiphon.fabric.wire.safe_pickle import ForeignDataError

_FRAME = struct.Struct("<II")  # kind, bytes that follow; of a LARGE, bytes that its parts have
_MESSAGES, _LARGE, _PART, _PING = range(1, 5)
_FULL_FRAME_BYTES = 24 * 1024
"""From which a frame takes no further message: one that is half read is moved in memory."""

PING = _FRAME.pack(_PING, 0)
"""An empty frame: keep-alive of its sender."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WireLimits:
    """What a connection may take.

    Attributes:
        max_frame_bytes: largest size of the messages in a frame.
        max_message_bytes: largest size of one message, in either direction.
        handshake_s: longest time until the peer has proved itself.
        ping_s: time without sent data after which a ping is sent.
        silence_s: time without received data after which the peer counts as lost.
    """

    max_frame_bytes: int = 256 * 1024
    max_message_bytes: int = 256 * 1024 * 1024
    handshake_s: float = 10.0
    ping_s: float = 5.0
    silence_s: float = 30.0


@dataclass(eq=False, slots=True)
class _LargeMessage:
    """A message that leaves in parts: what is left of it."""

    num_bytes: int
    pieces: deque[Buffer]
    order: Hashable
    has_begun: bool = False


class FrameWriter:
    """What is to be written: messages in, frames out."""

    def __init__(self, limits: WireLimits) -> None:
        self._max_bytes = limits.max_frame_bytes
        self._frames: list[Buffer] = []
        self._frame: list[Buffer] = []
        self._num_frame_bytes = 0
        self._large: deque[_LargeMessage] = deque()
        self._waiting: Counter[Hashable] = Counter()  # large messages by order

    @property
    def has_large(self) -> bool:
        """Whether parts of a message are still to be written."""
        return bool(self._large)

    def add(self, num_bytes: int, pieces: list[Buffer], order: Hashable) -> None:
        """Put a message, whose length is given, behind those of its order."""
        if num_bytes > self._max_bytes or self._waiting[order]:
            self._waiting[order] += 1
            self._large.append(_LargeMessage(num_bytes, deque(pieces), order))
            return
        if self._num_frame_bytes + num_bytes > self._max_bytes:
            self._end_frame()
        self._frame += pieces
        self._num_frame_bytes += num_bytes
        if self._num_frame_bytes >= _FULL_FRAME_BYTES:
            self._end_frame()

    def take(self, *, with_part: bool) -> list[Buffer]:
        """Return all that is small, and if wanted a part of what is large."""
        self._end_frame()
        pieces, self._frames = self._frames, []
        if with_part and self._large:
            self._take_part(pieces)
        return pieces

    def _end_frame(self) -> None:
        if self._frame:
            self._frames.append(_FRAME.pack(_MESSAGES, self._num_frame_bytes))
            self._frames += self._frame
            self._frame = []
            self._num_frame_bytes = 0

    def _take_part(self, pieces: list[Buffer]) -> None:
        message = self._large[0]
        if not message.has_begun:
            message.has_begun = True
            pieces.append(_FRAME.pack(_LARGE, message.num_bytes))
        part: list[Buffer] = []
        room = self._max_bytes
        while message.pieces and room:
            piece = memoryview(message.pieces.popleft())
            if len(piece) > room:
                message.pieces.appendleft(piece[room:])
                piece = piece[:room]
            part.append(piece)
            room -= len(piece)
        pieces.append(_FRAME.pack(_PART, self._max_bytes - room))
        pieces += part
        if not message.pieces:
            self._large.popleft()
            self._waiting[message.order] -= 1
            if not self._waiting[message.order]:
                del self._waiting[message.order]


class FrameReader:
    """What has been read: bytes in, messages out."""

    def __init__(self, limits: WireLimits) -> None:
        self._limits = limits
        self._scratch = _unzeroed(2 * (limits.max_frame_bytes + _FRAME.size))
        self._begin = self._end = 0  # of what is unread in it
        self._large: memoryview | None = None
        self._num_large_bytes = 0  # of it that are there
        self._num_part_bytes = 0  # of the current part that are still to come

    def room(self) -> memoryview:
        """Return where to read to: never empty."""
        if self._num_part_bytes and self._begin == self._end:
            assert self._large is not None
            return self._large[self._num_large_bytes :][: self._num_part_bytes]
        if self._begin:
            rest = self._end - self._begin
            self._scratch[:rest] = self._scratch[self._begin : self._end]
            self._begin, self._end = 0, rest
        return self._scratch[self._end :]

    def took(self, num_bytes: int) -> None:
        """Note how many bytes were read."""
        if self._num_part_bytes and self._begin == self._end:
            self._num_large_bytes += num_bytes
            self._num_part_bytes -= num_bytes
        else:
            self._end += num_bytes

    def exactly(self, num_bytes: int) -> bytes | None:
        """Take so many bytes; ``None``: there are not so many yet."""
        if self._end - self._begin < num_bytes:
            return None
        self._begin += num_bytes
        return bytes(self._scratch[self._begin - num_bytes : self._begin])

    def messages(self) -> list[Message]:
        """Take all messages that are whole; raises ForeignDataError."""
        found: list[Message] = []
        while True:
            if self._large is not None:
                self._fill_part()
                if self._num_part_bytes:
                    return found
                if self._num_large_bytes == len(self._large):
                    large, self._large = self._large, None
                    found.append(decode(large, is_owned=True))
                    continue
            if self._end - self._begin < _FRAME.size:
                return found
            kind, num_bytes = _FRAME.unpack_from(self._scratch, self._begin)
            if kind == _MESSAGES and num_bytes <= self._limits.max_frame_bytes:
                begin = self._begin + _FRAME.size
                if self._end - begin < num_bytes:
                    return found
                self._begin = begin + num_bytes
                self._split(self._scratch[begin : self._begin], found)
            else:
                self._begin += _FRAME.size
                self._control(kind, num_bytes)

    def _fill_part(self) -> None:
        """Move what belongs to the part under way out of the scratch."""
        assert self._large is not None
        num_bytes = min(self._num_part_bytes, self._end - self._begin)
        if num_bytes:
            there = self._num_large_bytes
            found = self._scratch[self._begin : self._begin + num_bytes]
            self._large[there : there + num_bytes] = found
            self._num_large_bytes += num_bytes
            self._num_part_bytes -= num_bytes
            self._begin += num_bytes

    def _split(self, frame: memoryview, found: list[Message]) -> None:
        begin, end = 0, len(frame)
        while begin < end:
            num_bytes = length_at(frame, begin)
            if num_bytes > end - begin:
                raise ForeignDataError("a frame cuts a message off")
            found.append(decode(frame[begin : begin + num_bytes]))
            begin += num_bytes

    def _control(self, kind: int, num_bytes: int) -> None:
        """Read what stands between frames of messages."""
        if kind == _LARGE and self._large is None:
            if not 0 < num_bytes <= self._limits.max_message_bytes:
                raise ForeignDataError(f"a message of {num_bytes} bytes is too large")
            self._large = _unzeroed(num_bytes)
            self._num_large_bytes = 0
        elif kind == _PART and self._large is not None and num_bytes:
            if num_bytes > len(self._large) - self._num_large_bytes:
                raise ForeignDataError("a message is longer than its head states")
            self._num_part_bytes = num_bytes
        elif kind != _PING or num_bytes:
            raise ForeignDataError(f"a frame has an unknown kind, {kind}, or a wrong length")


def _unzeroed(num_bytes: int) -> memoryview:
    """Return memory that costs nothing yet; what is read of it was written before."""
    return memoryview(np.empty(num_bytes, np.uint8))  # type: ignore[arg-type]
