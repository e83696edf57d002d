"""Calls, notices and streams over a connection, in both directions.

Streams have credits: the producer continues only while the consumer has room for a few items, so
that a stream that is not read blocks only itself.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Hashable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from antiphon.errors import AntiphonError, EngineError, ReplicaLostError
from antiphon.fabric.wire.connection import WireConnection
from antiphon.fabric.wire.frames import WireLimits
from antiphon.fabric.wire.handshake import Handshake
from antiphon.fabric.wire.messages import Message, MessageKind
from antiphon.fabric.wire.safe_pickle import ForeignDataError

logger = logging.getLogger(__name__)

STREAM_WINDOW = 8
"""Number of items that the producer of a stream may be ahead of the consumer."""


_FAILED = "The process that serves this failed; see its log."


def _nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RpcHandlers:
    """Methods that one side of a connection serves to the other, by name.

    An `AntiphonError` that they raise is raised at the other side with all its fields; any other is
    logged here, and an `EngineError` there. Notices run in order, at once, without an answer.

    Attributes:
        streams: methods that yield items; closed with the consumer.
        notices: methods that must return at once; an error is logged.
        on_lost: callback after the end of the connection and the cancellation of its calls.
    """

    calls: Mapping[str, Callable[..., Awaitable[Any]]] = field(default_factory=dict)
    streams: Mapping[str, Callable[..., AsyncGenerator[Any, None]]] = field(default_factory=dict)
    notices: Mapping[str, Callable[..., None]] = field(default_factory=dict)
    on_lost: Callable[[], None] = _nothing


class RpcPeer:
    """The other side of a connection; used in the event loop that it was made in.

    Attributes:
        lost: reason of the end; ``None`` while it is open.
    """

    def __init__(
        self,
        handshake: Handshake,
        handlers: RpcHandlers | None = None,
        limits: WireLimits | None = None,
        *,
        on_proved: Callable[["RpcPeer"], None] | None = None,
        on_lost: Callable[["RpcPeer"], None] | None = None,
    ) -> None:
        """Prepare one side: `connection` is the protocol for a transport.

        Args:
            on_proved: callback when the other side has proved itself, before it is served.
            on_lost: callback when the connection has ended, proved or not.
        """
        self.connection = WireConnection(
            handshake,
            proved=lambda: on_proved and on_proved(self),
            received=self._received,
            lost=self._lost,
            limits=limits,
        )
        self._on_lost = on_lost
        self.closed = asyncio.Event()
        self.lost: ReplicaLostError | None = None
        self._loop = asyncio.get_running_loop()
        self._handlers = handlers or RpcHandlers()
        self._ids = count(1)
        self._results: dict[int, asyncio.Future[Any]] = {}
        self._incoming: dict[int, _IncomingStream] = {}
        self._tasks: dict[int, asyncio.Task[Any]] = {}  # that serve the other side
        self._credits: dict[int, _Credits] = {}

    def use(self, handlers: RpcHandlers) -> None:
        """Serve these methods from now on."""
        self._handlers = handlers

    async def call(self, method: str, *arguments: Any) -> Any:
        """Return what the other side's method returns; cancelling cancels it there.

        Raises:
            AntiphonError: error that the method raised.
            ReplicaLostError: the connection has ended before the answer came.
        """
        self._check_open()
        id = next(self._ids)
        result = self._results[id] = self._loop.create_future()
        try:
            self.connection.send(MessageKind.CALL, id, (method, arguments))
            return await result
        finally:
            if self._results.pop(id, None) is not None:
                self.connection.send(MessageKind.CLOSE, id)

    def notify(self, method: str, *arguments: Any, order: Hashable = None) -> None:
        """Have the other side's method called; does nothing if the connection has ended.

        Args:
            order: key of messages that arrive in order, whatever their size.
        """
        self.connection.send(MessageKind.NOTICE, 0, (method, arguments), order=order)

    async def stream(
        self, method: str, *arguments: Any, window: int = STREAM_WINDOW, order: Hashable = None
    ) -> AsyncGenerator[Any, None]:
        """Yield what the other side's method yields; closing it closes it there.

        Args:
            window: number of items that may be in flight or unread here.
            order: key as in `notify`.

        Raises:
            AntiphonError: error that the method raised.
            ReplicaLostError: the connection has ended; what came before has been yielded.
        """
        self._check_open()
        id = next(self._ids)
        incoming = self._incoming[id] = _IncomingStream(self._loop)
        send = self.connection.send
        num_taken = 0
        try:
            send(MessageKind.OPEN, id, (method, arguments, window), order=order or id)
            while True:
                if not incoming.items:
                    await incoming.wait()
                kind, value = incoming.items.popleft()
                if kind is MessageKind.ITEM:
                    num_taken += 1
                    if 2 * num_taken >= window:
                        send(MessageKind.CREDIT, id, num_taken)
                        num_taken = 0
                    yield value
                elif kind is MessageKind.ERROR:
                    raise value
                else:
                    return
        finally:
            if self._incoming.pop(id, None) is not None:
                send(MessageKind.CLOSE, id, order=order or id)

    def close(self) -> None:
        """End the connection, and with it every call and stream of both sides."""
        self.connection.close()

    def _check_open(self) -> None:
        if self.lost is not None:
            raise ReplicaLostError(self.lost.message)

    def _received(self, message: Message) -> None:
        """Take a message; raises ForeignDataError if no peer of ours would send it."""
        kind, id, value = message
        if kind is MessageKind.ITEM:
            if (incoming := self._incoming.get(id)) is not None:
                incoming.put(kind, value)
            return
        match kind, value:
            case MessageKind.CREDIT, int():
                if (credits := self._credits.get(id)) is not None:
                    credits.add(value)
            case MessageKind.CLOSE, None:
                if (task := self._tasks.get(id)) is not None:
                    task.cancel()
            case (MessageKind.ERROR, AntiphonError()) | (MessageKind.END, None):
                self._answered(kind, id, value)
            case MessageKind.RESULT, _:
                self._answered(kind, id, value)
            case _, (str(method), tuple(arguments), *more):
                self._asked(kind, id, method, arguments, more)
            case _:
                raise ForeignDataError(f"a message of the kind {kind.name} makes no sense")

    def _asked(
        self, kind: MessageKind, id: int, method: str, arguments: tuple[Any, ...], more: list[Any]
    ) -> None:
        """Start a method that the other side has requested."""
        serving: Coroutine[Any, Any, None]
        match kind, more:
            case MessageKind.NOTICE, []:
                # In a turn of the loop, as streams begin in one: they run in the order of their
                # arrival then, and an error is the loop's to report.
                if (notice := self._handlers.notices.get(method)) is not None:
                    self._loop.call_soon(partial(notice, *arguments))
                return
            case MessageKind.CALL, [] if id not in self._tasks:
                serving = self._send_result(id, method, arguments)
            case MessageKind.OPEN, [int(window)] if id not in self._tasks:
                credits = self._credits[id] = _Credits(self._loop, window)
                serving = self._send_items(id, method, arguments, credits)
            case _:
                raise ForeignDataError(f"a message of the kind {kind.name} makes no sense")
        task = self._tasks[id] = self._loop.create_task(serving, name=f"serve {method}")
        task.add_done_callback(partial(self._served, id))

    def _answered(self, kind: MessageKind, id: int, value: Any) -> None:
        if (incoming := self._incoming.pop(id, None)) is not None:
            incoming.put(kind, value)
        elif kind is MessageKind.ERROR:
            self._settle(id, None, value)
        else:
            self._settle(id, value, None)

    def _settle(self, id: int, value: Any, error: BaseException | None) -> None:
        result = self._results.pop(id, None)
        if result is None or result.done():
            return
        if error is None:
            result.set_result(value)
        else:
            result.set_exception(error)

    async def _send_result(self, id: int, method: str, arguments: tuple[Any, ...]) -> None:
        value = await self._handlers.calls[method](*arguments)
        self.connection.send(MessageKind.RESULT, id, value)

    async def _send_items(
        self, id: int, method: str, arguments: tuple[Any, ...], credits: "_Credits"
    ) -> None:
        send = self.connection.send
        async with aclosing(self._handlers.streams[method](*arguments)) as items:
            async for item in items:
                send(MessageKind.ITEM, id, item)
                credits.left -= 1
                if credits.left <= 0:
                    await credits.wait()
        send(MessageKind.END, id)

    def _served(self, id: int, task: "asyncio.Task[Any]") -> None:
        """Send the error of a method, if it failed."""
        del self._tasks[id]
        self._credits.pop(id, None)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, AntiphonError):
            logger.error("'%s' failed", task.get_name(), exc_info=error)
            error = EngineError(_FAILED)
        try:
            self.connection.send(MessageKind.ERROR, id, error)
        except ForeignDataError:
            logger.exception("an error cannot be sent")
            self.connection.send(MessageKind.ERROR, id, EngineError(_FAILED))

    def _lost(self, reason: str) -> None:
        self.lost = ReplicaLostError(reason)
        self.closed.set()
        incoming, self._incoming = self._incoming, {}
        for each in incoming.values():
            each.put(MessageKind.ERROR, ReplicaLostError(reason))
        for id in tuple(self._results):
            self._settle(id, None, ReplicaLostError(reason))
        for task in tuple(self._tasks.values()):
            task.cancel()
        self._handlers.on_lost()
        if self._on_lost is not None:
            self._on_lost(self)


class _IncomingStream:
    __slots__ = ("_loop", "_waiter", "items")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.items: deque[tuple[MessageKind, Any]] = deque()
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None

    def put(self, kind: MessageKind, value: Any) -> None:
        self.items.append((kind, value))
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self) -> None:
        while not self.items:
            self._waiter = self._loop.create_future()
            await self._waiter


class _Credits:
    """Number of items that a stream's consumer has room for."""

    __slots__ = ("_loop", "_waiter", "left")

    def __init__(self, loop: asyncio.AbstractEventLoop, left: int) -> None:
        self.left = left
        self._loop = loop
        self._waiter: asyncio.Future[None] | None = None

    def add(self, number: int) -> None:
        self.left += number
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        while self.left <= 0:
            self._waiter = self._loop.create_future()
            await self._waiter
