"""Calls of the API within this process: no socket, but every check and limit of HTTP."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Mapping
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Scope

from antiphon.concurrency import cancel_and_wait
from antiphon.config import Settings
from antiphon.errors import UnavailableError

HOST = "localhost"
"""The name that the API is called by, to which it always answers."""


class _Connection:
    """What calls and WebSockets share.

    The API waits with each message until the one before has been taken.
    """

    def __init__(self, app: ASGIApp, scope: Scope) -> None:
        """Begin; `aclose` must follow."""
        self._sender, self._messages = anyio.create_memory_object_stream[Message](0)
        name = f"{scope.get('method', 'WS')} {scope['path']}"
        self.task = asyncio.create_task(self._serve(app, scope), name=name)

    async def aclose(self) -> None:
        """Stop the work if it has not ended, and wait for its end."""
        await cancel_and_wait(self.task)
        self._messages.close()

    async def _serve(self, app: ASGIApp, scope: Scope) -> None:
        async with self._sender:
            await app(scope, self._receive, self._sender.send)

    async def _receive(self) -> Message:
        raise NotImplementedError

    async def _check(self) -> None:
        """Raise what the work ended by, if it did not end well."""
        await asyncio.wait([self.task])
        if self.task.cancelled():
            raise UnavailableError("The request was cancelled.")
        self.task.result()


class InProcessCall(_Connection):
    """A JSON object posted to a route, and its answer."""

    def __init__(
        self, app: ASGIApp, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> None:
        """Begin the call; `aclose` must follow.

        Args:
            app: the API, whose lifespan has been entered.
            headers: besides those that every call has.
        """
        self._unread = [{"type": "http.request", "body": json.dumps(body).encode()}]
        super().__init__(app, {"type": "http", "method": "POST", **_scope("http", path, headers)})

    async def begin(self) -> tuple[int, Headers]:
        """Return the status and the headers of the answer, as soon as they are known.

        Raises:
            UnavailableError: the call was cancelled.
        """
        try:
            start = await self._messages.receive()
        except anyio.EndOfStream:
            await self._check()
            raise
        return start["status"], Headers(raw=list(start["headers"]))

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        """Yield the body; an answer that breaks off raises its error; raises UnavailableError."""
        async for message in self._messages:
            if piece := message.get("body"):
                yield piece
        await self._check()

    async def body(self) -> bytes:
        """Return all that is left of the body; raises as `pieces`."""
        return b"".join([piece async for piece in self.pieces()])

    async def _receive(self) -> Message:
        while not self._unread:
            await asyncio.Event().wait()  # a client that leaves cancels the call
        return self._unread.pop()


class InProcessSocket(_Connection):
    """A WebSocket of the API that carries JSON objects both ways."""

    def __init__(
        self,
        app: ASGIApp,
        path: str,
        headers: Mapping[str, str],
        sent: AsyncIterator[Mapping[str, Any]],
    ) -> None:
        """Connect; `aclose` must follow.

        Args:
            app: the API, whose lifespan has been entered.
            headers: headers beside those of every connection.
            sent: messages of the client. The connection outlasts their end.
        """
        self._sent = sent
        self._has_connected = False
        scope: Scope = {
            "type": "websocket",
            "subprotocols": [],
            "extensions": {"websocket.http.response": {}},
            **_scope("ws", path, headers),
        }
        super().__init__(app, scope)

    @property
    def is_sending(self) -> bool:
        """Whether a message of the API has not been taken yet."""
        return self._messages.statistics().tasks_waiting_send > 0

    async def messages(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield what the API sends, until it ends the connection or `task` is cancelled.

        A refused handshake yields the error that it was refused with.
        """
        async for message in self._messages:
            if text := message.get("text") or message.get("body"):
                yield json.loads(text)
        if not self.task.cancelled():
            await self._check()

    async def _receive(self) -> Message:
        if not self._has_connected:
            self._has_connected = True
            return {"type": "websocket.connect"}
        message = await anext(self._sent, None)
        if message is None:
            await asyncio.Event().wait()  # a client that leaves cancels the task
        return {"type": "websocket.receive", "text": json.dumps(message)}


async def ended_within(timeout_s: float, calls: Collection[_Connection]) -> None:
    """Return when all calls have ended; those that take longer are cancelled."""
    tasks = [call.task for call in calls]
    if tasks:
        await asyncio.wait(tasks, timeout=timeout_s)
    await cancel_and_wait(*tasks)


def for_one_caller(settings: Settings) -> Settings:
    """Return settings for an API that is called from its own process only.

    It asks for no key, and its one caller may have what all callers together may.
    """
    server = {"api_keys": (), "api_keys_file": None}
    limits = {"caller_places": settings.limits.max_requests, "caller_memory_mib": 0}
    return settings.model_copy(
        update={
            "server": settings.server.model_copy(update=server),
            "limits": settings.limits.model_copy(update=limits),
        }
    )


def _scope(scheme: str, path: str, headers: Mapping[str, str]) -> Scope:
    named = {"Host": HOST, "Content-Type": "application/json", **headers}
    return {
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": scheme,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()],
        "client": ("127.0.0.1", 0),
        "server": (HOST, 0),
    }
