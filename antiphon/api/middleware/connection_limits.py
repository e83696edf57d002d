"""Lets in no more than agreed, and nothing new once the server is about to stop."""

from collections.abc import Generator
from contextlib import contextmanager

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api.middleware.keys import KeyRing, caller_of
from antiphon.api.middleware.limit_table import LimitTable
from antiphon.config import LimitSettings
from antiphon.errors import RateLimitError, UnavailableError

PROBES = ("/health", "/ready", "/metrics")
"""Always answered: probes must work when the server is full."""
SPEECH_PATH = "/v1/audio/speech"
_READING = ("GET", "HEAD", "OPTIONS")
RETRY_AFTER_S = 1.0
"""A load balancer has other servers, and a place here is soon free."""


class ConnectionLimits:
    """Counts the requests and WebSockets that are open; ``num_open``: those of this process."""

    def __init__(self, limits: LimitSettings, table: LimitTable) -> None:
        """Admit connections by ``limits``; ``table`` counts, for other processes too."""
        self._table = table
        self._max_open = {"http": limits.max_requests, "websocket": limits.max_sockets}
        self.num_open = {"http": 0, "websocket": 0}
        self._max_of_one = limits.caller_places
        self.is_draining = False
        self.is_retiring = False

    def drain(self) -> None:
        """Let nothing in any more; what is in may go on."""
        self.is_draining = True

    def retire(self) -> None:
        """Serve all that comes, but have clients connect again: to other front ends."""
        self.is_retiring = True

    @contextmanager
    def passed(self, kind: str, caller: str) -> Generator[None, None, None]:
        """Hold a place while the block lasts; raises UnavailableError or RateLimitError."""
        if self.is_draining:
            raise UnavailableError("The server is stopping.", retry_after_s=RETRY_AFTER_S)
        table, own = self._table, f"{kind} {caller}"
        with table.locked():
            if table.count(kind) >= self._max_open[kind]:
                raise UnavailableError("Too many connections.", retry_after_s=RETRY_AFTER_S)
            if table.count(own) >= self._max_of_one:
                message = f"Too many connections: at most {self._max_of_one} are allowed at once."
                raise RateLimitError(message, retry_after_s=RETRY_AFTER_S)
            table.add(own, 1)
            table.add(kind, 1)
        self.num_open[kind] += 1
        try:
            yield
        finally:
            self.num_open[kind] -= 1
            with table.locked():
                table.add(kind, -1)
                table.add(own, -1)


class ConnectionLimitMiddleware:
    """Takes each request through the limits, but for probes."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits, keys: KeyRing) -> None:
        self._app = app
        self._limits = limits
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        with self._limits.passed(scope["type"], caller_of(scope, self._keys)):
            await self._app(scope, receive, send)


class DrainMiddleware:
    """Ends kept-alive connections while the server drains, so that clients find another one."""

    def __init__(self, app: ASGIApp, limits: ConnectionLimits) -> None:
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            is_leaving = self._limits.is_draining or self._limits.is_retiring
            if is_leaving and message["type"] == "http.response.start":
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        await self._app(scope, receive, closing)


def makes_work(scope: Scope) -> bool:
    """Return whether a model works for a request: it does not just read, or it reads speech."""
    if scope["type"] != "http":
        return bool(scope["type"] == "websocket")
    is_speech = scope["path"] == SPEECH_PATH and scope["method"] != "OPTIONS"
    return is_speech or scope["method"] not in _READING
