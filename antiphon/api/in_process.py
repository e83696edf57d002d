"""Calls of the API within this process: no socket, but every check and limit of HTTP."""

import asyncio
import json
from collections.abc import AsyncGenerator, Collection, Mapping
from typing import Any

import anyio
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Scope

from antiphon.concurrency import cancel_and_wait
from antiphon.config import Settings
from antiphon.errors import UnavailableError

HOST = "localhost"
"""The name that the API is called by, to which it always answers."""


class InProcessCall:
    """A JSON object posted to a route, and its answer.

    The API waits with each piece of the answer until the one before has been taken.

    Attributes:
        task: Task of the call; cancelling it ends the call.
    """

    def __init__(
        self, app: ASGIApp, path: str, body: Mapping[str, Any], headers: Mapping[str, str]
    ) -> None:
        """Begin the call; `aclose` must follow.

        Args:
            app: the API, whose lifespan has been entered.
            path: Path of the route.
            body: JSON body.
            headers: besides those that every call has.
        """
        self._unread = [{"type": "http.request", "body": json.dumps(body).encode()}]
        self._sender, self._messages = anyio.create_memory_object_stream[Message](0)
        serving = self._serve(app, _scope(path, headers))
        self.task = asyncio.create_task(serving, name=f"POST {path}")

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
        """Yield the body; an answer that breaks off raises what broke it.

        Raises:
            UnavailableError: the call was cancelled.
        """
        async for message in self._messages:
            if piece := message.get("body"):
                yield piece
        await self._check()

    async def body(self) -> bytes:
        """Return all that is left of the body; raises as `pieces`."""
        return b"".join([piece async for piece in self.pieces()])

    async def aclose(self) -> None:
        """Stop the work if it has not ended, and wait for its end."""
        await cancel_and_wait(self.task)
        self._messages.close()

    async def _serve(self, app: ASGIApp, scope: Scope) -> None:
        async with self._sender:
            await app(scope, self._receive, self._sender.send)

    async def _receive(self) -> Message:
        while not self._unread:
            await asyncio.Event().wait()  # a client that leaves cancels the call
        return self._unread.pop()

    async def _check(self) -> None:
        """Raise what the call ended by, if it did not end well."""
        await asyncio.wait([self.task])
        if self.task.cancelled():
            raise UnavailableError("The request was cancelled.")
        self.task.result()


async def ended_within(timeout_s: float, calls: Collection[InProcessCall]) -> None:
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


def _scope(path: str, headers: Mapping[str, str]) -> Scope:
    named = {"Host": HOST, "Content-Type": "application/json", **headers}
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()],
        "client": ("127.0.0.1", 0),
        "server": (HOST, 0),
    }
