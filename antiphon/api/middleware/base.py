"""Request ids and API keys, as plain ASGI, so that a broken stream stays broken."""

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from antiphon.api.callers import address_of
from antiphon.api.middleware.failed_keys import FailedKeys
from antiphon.api.middleware.keys import KeyRing, given_key
from antiphon.contracts.types import new_request_id
from antiphon.errors import AuthenticationError
from antiphon.telemetry.logs import request_scope

REQUEST_ID_HEADER = "X-Request-Id"
CALLER = "antiphon.caller"
"""Scope key of a connection's caller."""

_VALID_REQUEST_ID = re.compile(r"[\w.:+/=@-]{1,128}", re.ASCII)
_OPEN_PATHS = {"/", "/health", "/ready", "/favicon.ico", "/docs", "/openapi.json"}
_OPEN_PATHS |= {"/v1", "/v1/", "/v1/test"}
_OPEN_PREFIXES = ("/static/", "/docs/")
# Open WebUI and Home Assistant ask for these without the key that they were given.
_OPEN_LISTS = ("/v1/models", "/v1/audio/models", "/v1/audio/voices", "/v1/audio/speech/voices")


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
        if self._keys and not _is_open(scope):
            if not given_key(headers):
                raise AuthenticationError(
                    "No API key was given. Send it as 'Authorization: Bearer <key>'."
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
