"""Counts, logs and traces each request, from its first byte to the end of its answer."""

import logging
import time

from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api.middleware.base import CALLER
from antiphon.contracts.types import Caller
from antiphon.telemetry import tracing
from antiphon.telemetry.metrics import Metrics

logger = logging.getLogger("antiphon.requests")

_METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH")
_UNKNOWN = "other"


class AccessLogMiddleware:
    """Sees each request as its client does."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, logs_requests: bool) -> None:
        """Watch ``app``; ``logs_requests`` adds a line to the log for each request."""
        self._app = app
        self._metrics = metrics
        self._level = logging.INFO if logs_requests else logging.DEBUG

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began_s, status = time.monotonic(), "none"  # if the client leaves before

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"].endswith("http.response.start"):
                status = str(message["status"])
            elif message["type"] == "websocket.accept":
                status = "101"
            await send(message)

        is_socket = scope["type"] == "websocket"
        method = "GET" if is_socket else scope["method"]
        open_now = self._metrics.sockets_open if is_socket else self._metrics.http_open
        attributes = {"http.request.method": method, "url.path": scope["path"]}
        try:
            with (
                open_now.track_inprogress(),
                tracing.request_span(method, scope["headers"], attributes),
            ):
                await self._app(scope, receive, noted)
        finally:
            self._tell(scope, method, status, time.monotonic() - began_s)

    def _tell(self, scope: Scope, method: str, status: str, elapsed_s: float) -> None:
        route = route_of(scope)
        known = method if method in _METHODS else _UNKNOWN
        self._metrics.http_requests.labels(known, route, status).inc()
        self._metrics.http_s.labels(route).observe(elapsed_s)
        owner = scope.get(CALLER, Caller()).owner
        if owner is not None:
            self._metrics.owner_requests.labels(owner).inc()
        if logger.isEnabledFor(self._level):
            values = (method, route, status, round(elapsed_s * 1000))  # a path can name a voice
            fields = dict(zip(("method", "route", "status", "duration_ms"), values, strict=True))
            extra = {"fields": {**fields, "owner": owner}}
            logger.log(self._level, "%s %s %s in %d ms", *values, extra=extra)


def route_of(scope: Scope) -> str:
    """Return the route as the API's description has it, which no client can make up."""
    route = scope.get("route")
    return route.path if isinstance(route, Route | WebSocketRoute) else _UNKNOWN
