"""Limits of request bodies while they arrive: time, size, memory, and JSON's values.

A body that is too large is refused at once if its headers declare it, else as soon as it is.
"""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api.middleware.json_limits import MAX_VALUES, JsonMeter
from antiphon.api.middleware.keys import KeyRing, caller_of
from antiphon.api.middleware.memory_budget import LEASE, Lease, MemoryBudget, use_lease
from antiphon.errors import RequestTooLargeError, SlowRequestError

MIN_BODY_BYTES_PER_S = 10_000
"""What comes faster extends the time that a body has."""
COPIES_OF_BODY = 2
"""A body as it came, and what is read from it."""
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
"""Forms have limits of their own for what JSON has values for."""


class BodyMiddleware:
    """Gives each request its memory lease, and reads its body within the limits."""

    def __init__(
        self,
        app: ASGIApp,
        budget: MemoryBudget,
        keys: KeyRing,
        *,
        max_bytes: int,
        timeout_s: float,
    ) -> None:
        self._app = app
        self._budget = budget
        self._keys = keys
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._budget.lease(caller_of(scope, self._keys)) as lease, use_lease(lease):
            scope[LEASE] = lease
            if scope["type"] == "http":
                body = _Body(Headers(scope=scope), receive, lease, self._max_bytes, self._timeout_s)
                receive = body.receive
            await self._app(scope, receive, send)


class _Body:
    def __init__(
        self, headers: Headers, receive: Receive, lease: Lease, max_bytes: int, timeout_s: float
    ) -> None:
        self._receive = receive
        self._lease = lease
        self._max_bytes = max_bytes
        self._deadline_s = asyncio.get_running_loop().time() + timeout_s
        is_form = headers.get("Content-Type", "").lower().startswith(FORMS)
        self._meter = None if is_form else JsonMeter()
        self._num_bytes = 0
        self._is_complete = False
        declared = headers.get("Content-Length", "")
        if declared.isdecimal():
            self._check_size(int(declared))
            lease.check(COPIES_OF_BODY * int(declared))

    async def receive(self) -> Message:
        if self._is_complete:  # what comes now is only that the client has left
            return await self._receive()
        try:
            async with asyncio.timeout_at(self._deadline_s):
                message = await self._receive()
        except TimeoutError:
            raise SlowRequestError("The request body took too long to arrive.") from None
        self._is_complete = not message.get("more_body", False)
        if message["type"] == "http.request":
            self._take(message.get("body", b""))
        return message

    def _take(self, piece: bytes) -> None:
        self._num_bytes += len(piece)
        self._deadline_s += len(piece) / MIN_BODY_BYTES_PER_S
        self._check_size(self._num_bytes)
        num_copied = (COPIES_OF_BODY - 1) * self._num_bytes if self._is_complete else 0
        self._lease.reserve(len(piece) + num_copied)
        is_small = self._is_complete and self._num_bytes <= MAX_VALUES
        if self._meter is not None and not is_small:  # each byte may be a value
            self._meter.feed(piece)

    def _check_size(self, num_bytes: int) -> None:
        if num_bytes > self._max_bytes:
            raise RequestTooLargeError(
                f"The request body is too large: at most {self._max_bytes} bytes are allowed."
            )
