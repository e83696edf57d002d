"""Methods and addresses that are not there: 405 with ``Allow``, ``OPTIONS``, ``HEAD``, and 404."""

from collections.abc import Sequence
from http import HTTPStatus

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Match, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

MAX_SHOWN_CHARACTERS = 200


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
        """Return the methods of an address."""
        found = (each for each in self._routes if _matches(each, scope))
        return {method for route in found for method in route.methods or ()}


def _matches(route: BaseRoute, scope: Scope) -> bool:
    return route.matches(scope)[0] is not Match.NONE


async def raise_again(request: Request, error: Exception) -> Response:
    """Leave the router's answer about methods to `MethodMiddleware`."""
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
