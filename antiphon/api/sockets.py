"""WebSockets: messages in, one sender at a time, and nothing that a client can make grow.

A sender waits until the client has read. Messages are taken in one by one, no faster than
agreed; a client that neither sends nor reads is sent away.
"""

import asyncio
import json
import sys
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Protocol

from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from antiphon.api.errors import WireError, failures_to, wire_error
from antiphon.api.middleware import json_limits, memory_budget
from antiphon.api.middleware.keys import KEY_SUBPROTOCOL
from antiphon.concurrency import cancel_and_wait, until_ended
from antiphon.errors import IdleError, InvalidRequestError
from antiphon.telemetry.metrics import Metrics

MAX_MESSAGE_BYTES = 4 * 1024 * 1024
COPIES_OF_MESSAGE = 3
"""Of a message that is followed: the text, what is read from it, and what is made of that."""
MESSAGES_PER_S = 1000
"""More are taken in later."""
BURST_MESSAGES = 4000
MESSAGES_A_TURN = 16
"""So many are followed before others have their turn."""
GOING_AWAY, NORMAL = 1001, 1000


class Socket:
    """A client's connection.

    Attributes:
        in_hand: Memory of the message that was received last, as it came and as it is read.
    """

    def __init__(self, websocket: WebSocket, max_idle_s: float) -> None:
        """Serve a connection not accepted yet; ``max_idle_s`` limits silence of both sides."""
        self._websocket = websocket
        self.max_idle_s = max_idle_s
        self.metrics: Metrics = websocket.app.state.guards.metrics
        self._turn = asyncio.Lock()
        self._last_active_s = self._now_s()
        self._next_message_s = 0.0
        self._num_received = 0
        self.in_hand = memory_budget.Holding()

    async def accept(self, headers: Mapping[str, str] | None = None) -> None:
        """Accept, with one of the subprotocols if any is offered; raises WebSocketDisconnect."""
        offered = self._websocket.scope["subprotocols"]
        names = [each for each in offered if not each.startswith(KEY_SUBPROTOCOL)]
        raw = [(name.encode(), value.encode()) for name, value in (headers or {}).items()]
        try:
            await self._websocket.accept(next(iter(names or offered), None), raw)
        except OSError:  # which starlette translates for messages only
            raise WebSocketDisconnect(1006) from None
        self._last_active_s = self._now_s()  # it may have waited for a replica

    async def receive(self) -> Mapping[str, Any]:
        """Return the next message; what the one before took is counted no longer.

        Raises:
            WebSocketDisconnect: the client has left.
            IdleError: it has been silent for too long.
            InvalidRequestError: the message is not a JSON object.
            MemoryShareError, MemoryFullError: there is no memory for it.
        """
        await self._keep_pace()
        self.in_hand.set(0)
        text = (await self._event()).get("text")
        if text is None:
            raise InvalidRequestError("Messages are JSON objects, sent as text.")
        self.in_hand.set(COPIES_OF_MESSAGE * sys.getsizeof(text))
        try:
            message = json_limits.loads(text)
        except (ValueError, RecursionError) as error:
            raise InvalidRequestError("Invalid JSON.", code="invalid_json") from error
        if not isinstance(message, dict):
            raise InvalidRequestError("Invalid message: it must be a JSON object.")
        return message

    async def send(self, message: Mapping[str, Any] | bytes) -> None:
        """Send JSON, or bytes as they are; returns when the client's side has room for more.

        Raises:
            WebSocketDisconnect: the client has left.
        """
        async with self._turn:
            await self._write(message)

    async def send_all(self, messages: deque[Mapping[str, Any]]) -> None:
        """Send messages; wherever it is interrupted, those left in ``messages`` were not sent.

        Raises:
            WebSocketDisconnect: the client has left.
        """
        while messages:
            async with self._turn:
                await self._write(messages.popleft())

    async def _write(self, message: Mapping[str, Any] | bytes) -> None:
        if self._websocket.application_state is not WebSocketState.CONNECTED:
            raise WebSocketDisconnect(1006)
        if isinstance(message, bytes):
            await self._websocket.send_bytes(message)
        else:
            text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
            await self._websocket.send_text(text)
        self._last_active_s = self._now_s()

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """End the conversation; may be called again."""
        async with self._turn:
            if self._websocket.application_state is WebSocketState.CONNECTED:
                await self._websocket.close(code, reason)

    async def until_gone(self) -> None:
        """Return when the client has left or been silent too long; later messages are dropped."""
        with suppress(WebSocketDisconnect, IdleError):
            while True:
                await self._event()

    async def _event(self) -> Mapping[str, Any]:
        while True:
            try:
                async with asyncio.timeout_at(self._last_active_s + self.max_idle_s):
                    event = await self._websocket.receive()
                break
            except TimeoutError:
                if self._now_s() >= self._last_active_s + self.max_idle_s:
                    raise IdleError(self.max_idle_s) from None
        if event["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(event.get("code", 1006))
        self._last_active_s = self._now_s()
        return event

    async def _keep_pace(self) -> None:
        now_s = self._now_s()
        burst_s = BURST_MESSAGES / MESSAGES_PER_S
        self._next_message_s = max(self._next_message_s, now_s - burst_s) + 1 / MESSAGES_PER_S
        self._num_received += 1
        if self._next_message_s > now_s:
            await asyncio.sleep(self._next_message_s - now_s)
        elif self._num_received % MESSAGES_A_TURN == 0:
            await asyncio.sleep(0)  # what has come already is received without waiting

    @staticmethod
    def _now_s() -> float:
        return asyncio.get_running_loop().time()


class Conversation(Protocol):
    """What one protocol makes of messages."""

    async def receive(self, message: Mapping[str, Any]) -> bool:
        """Take a message in; return whether the client wants no more than what it is owed.

        Raises:
            AntiphonError: the message cannot be followed.
        """

    async def refuse(self, error: WireError) -> None:
        """Send why a message was refused, or why the connection ends."""

    async def finish(self) -> None:
        """Return when the client has got all that it is owed."""

    async def close(self) -> None:
        """Stop all work; returns when everything is free."""


async def converse(
    socket: Socket, conversation: Conversation, greeting: Mapping[str, Any] | None = None
) -> None:
    """Follow messages until the client is done, leaves or idles; then close ``conversation``.

    An error in a message is sent to the client.
    """
    try:
        if greeting is not None:
            await socket.send(greeting)
        is_last = False
        while not is_last:
            async with failures_to(conversation.refuse, socket.metrics):
                is_last = await conversation.receive(await socket.receive())
        if await _finished(socket, conversation):
            await socket.close()
    except WebSocketDisconnect:
        pass
    except IdleError as error:
        await _sent_away(socket, conversation, error)
    finally:
        closing = asyncio.create_task(conversation.close())
        await until_ended(closing)
        closing.result()


async def _finished(socket: Socket, conversation: Conversation) -> bool:
    """Wait until all is delivered; false if the client has left."""
    finishing = asyncio.create_task(conversation.finish())
    gone = asyncio.create_task(socket.until_gone())
    try:
        await asyncio.wait((finishing, gone), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(finishing, gone)
    if finishing.cancelled():
        return False
    finishing.result()
    return True


async def _sent_away(socket: Socket, conversation: Conversation, error: IdleError) -> None:
    """Send the error; a client that does not read is not waited for."""
    with suppress(TimeoutError, WebSocketDisconnect):
        async with asyncio.timeout(1):
            await conversation.refuse(wire_error(error))
            await socket.close(GOING_AWAY, "idle")
