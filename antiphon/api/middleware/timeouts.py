"""Clients that send their body byte by byte hold a place for a limited time."""

import asyncio

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.errors import SlowRequestError

MIN_BODY_BYTES_PER_S = 10_000


class BodyTimeoutMiddleware:
    """Waits for a body no longer than agreed."""

    def __init__(self, app: ASGIApp, body_timeout_s: float) -> None:
        self._app = app
        self._body_timeout_s = body_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        deadline_s = asyncio.get_running_loop().time() + self._body_timeout_s
        has_come = False

        async def in_time() -> Message:
            nonlocal deadline_s, has_come
            if has_come:  # what comes now is only that the client has left
                return await receive()
            try:
                async with asyncio.timeout_at(deadline_s):
                    message = await receive()
            except TimeoutError:
                raise SlowRequestError("The request body took too long to arrive.") from None
            deadline_s += len(message.get("body", b"")) / MIN_BODY_BYTES_PER_S
            has_come = not message.get("more_body", False)
            return message

        await self._app(scope, in_time, send)
