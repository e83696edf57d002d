"""Request ids, API keys, methods and the log, as plain ASGI: a broken stream stays broken."""

import logging
import re
import time
from collections.abc import Sequence
from http import HTTPStatus

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api.middleware.failed_keys import FailedKeys
from antiphon.api.middleware.keys import KeyRing, address_of, given_key
from antiphon.api.middleware.signed_urls import is_signed, reads_speech, signer
from antiphon.contracts.types import Caller, new_request_id
from antiphon.errors import AuthenticationError
from antiphon.telemetry import tracing
from antiphon.telemetry.logs import request_scope
from antiphon.telemetry.metrics import Metrics

REQUEST_ID_HEADER = "X-Request-Id"
CALLER = "antiphon.caller"
"""Scope key of a connection's caller."""
MORE_HEADERS = "antiphon.headers"
"""Scope key of headers that inner middleware adds to any response, errors included."""

_VALID_REQUEST_ID = re.compile(r"[\w.:+/=@-]{1,128}", re.ASCII)
_OPEN_PATHS = {"/", "/health", "/ready", "/favicon.ico", "/docs", "/openapi.json", "/guides"}
_OPEN_PATHS |= {"/v1", "/v1/", "/v1/test"}
_OPEN_PREFIXES = ("/static/", "/docs/", "/guides/")
# Open WebUI and Home Assistant ask for these without the key that they were given.
_OPEN_LISTS = ("/v1/models", "/v1/audio/models", "/v1/audio/voices", "/v1/audio/speech/voices")


logger = logging.getLogger("antiphon.requests")
_METHODS = ("GET", "HEAD", "POST", "DELETE", "OPTIONS", "PUT", "PATCH")
_UNKNOWN = "other"
MAX_SHOWN_CHARACTERS = 200


class RequestIdMiddleware:
    """Names each request: in its logs and in its response. The outermost middleware.

    It also forbids browsers to guess the type of an answer.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":  # no middleware has a part in it
            await scope["app"].router(scope, receive, send)
            return
        given = Headers(scope=scope).get(REQUEST_ID_HEADER, "")
        id = given if _VALID_REQUEST_ID.fullmatch(given) else new_request_id()

        async def named(message: Message) -> None:
            if message["type"].endswith(("http.response.start", "websocket.accept")):
                message.setdefault("headers", [])
                headers = MutableHeaders(scope=message)
                headers[REQUEST_ID_HEADER] = id
                headers["X-Content-Type-Options"] = "nosniff"  # media have their declared type
                headers.update(scope.get(MORE_HEADERS, {}))
            await send(message)

        with request_scope(id):
            await self._app(scope, receive, named)


class ApiKeyMiddleware:
    """Asks for a key everywhere but on pages, health and public lists; without keys, nowhere."""

    def __init__(self, app: ASGIApp, keys: KeyRing, failed: FailedKeys) -> None:
        self._app = app
        self._keys = keys
        self._failed = failed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        scope[CALLER] = self._keys.caller(headers)
        if self._keys and is_signed(scope):
            caller = signer(scope, self._keys)
            self._failed.check(address_of(scope), None if caller is None else "signed")
            if caller is None:
                raise AuthenticationError("The signature of the URL is wrong.")
            scope[CALLER] = caller
        elif self._keys and not _is_open(scope):
            if not given_key(headers):
                hint = " Or use a signed URL: POST /v1/audio/speech/url." * reads_speech(scope)
                raise AuthenticationError(
                    f"No API key was given. Send it as 'Authorization: Bearer <key>'.{hint}"
                )
            owner = self._keys.owner(headers)
            self._failed.check(address_of(scope), owner)
            if owner is None:
                raise AuthenticationError("The API key is wrong.")
        await self._app(scope, receive, send)


def _is_open(scope: Scope) -> bool:
    path = scope["path"]
    if path in _OPEN_PATHS or path.startswith(_OPEN_PREFIXES):
        return True
    is_read = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
    return is_read and (path in _OPEN_LISTS or path.startswith("/v1/models/"))


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


class MethodMiddleware:
    """Knows all routes, since those of one address are several to the framework.

    ``HEAD`` is answered as ``GET`` is, without the body; ``OPTIONS`` lists the methods.
    """

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        """Stand before ``app``, which has these routes."""
        self._app = app
        self._routes = [each for each in routes if isinstance(each, Route)]
        self._sockets = [each for each in routes if isinstance(each, WebSocketRoute)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket" and not any(
            _matches(each, scope) for each in self._sockets
        ):
            raise HTTPException(404, f"There is no WebSocket at '{_shown(scope)}'.")
        try:
            await self._app(scope, receive, send)
        except HTTPException as error:
            if error.status_code != HTTPStatus.METHOD_NOT_ALLOWED:
                raise
            await self._answer(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        method, declared = scope["method"], self._declared(scope)
        allowed = {*declared, "OPTIONS", *(("HEAD",) if "GET" in declared else ())}
        headers = {"Allow": ", ".join(sorted(allowed))}
        if method == "OPTIONS":
            await Response(status_code=204, headers=headers)(scope, receive, send)
        elif method == "HEAD" and "GET" in allowed:
            await _without_body(self._app, {**scope, "method": "GET"}, receive, send)
        else:
            message = f"{ascii(method)[1:-1][:20]} is not allowed at '{_shown(scope)}'."
            raise HTTPException(405, f"{message} Allowed: {headers['Allow']}.", headers)

    def _declared(self, scope: Scope) -> set[str]:
        found = (each for each in self._routes if _matches(each, scope))
        return {method for route in found for method in route.methods or ()}


def _matches(route: BaseRoute, scope: Scope) -> bool:
    return route.matches(scope)[0] is not Match.NONE


async def raise_again(request: Request, error: Exception) -> Response:
    """Leave the framework's answers to `MethodMiddleware` and `ErrorMiddleware`."""
    raise error


async def _without_body(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the headers alone; a stream then ends as if its client had left.

    Errors keep their bodies, which adapters rewrite and the server then leaves out.
    """
    has_started = is_error = False

    async def send_head(message: Message) -> None:
        nonlocal has_started, is_error
        if message["type"] == "http.response.start" and not has_started:
            has_started, is_error = True, message["status"] >= 400
            await send(message)
            if not is_error:
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        elif is_error:
            await send(message)

    await app(scope, receive, send_head)


def _shown(scope: Scope) -> str:
    return ascii(scope["path"])[1:-1][:MAX_SHOWN_CHARACTERS]
