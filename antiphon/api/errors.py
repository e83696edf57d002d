"""Every failure leaves in OpenAI's shape; a response that fails midway is broken, never ended.

`ErrorMiddleware` is the one place where a request's exceptions end.
"""

import logging
import math
import re
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from itertools import islice
from typing import Any, TypeVar

from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from antiphon.errors import (
    AntiphonError,
    AuthenticationError,
    IdleError,
    InvalidRequestError,
    RequestTooLargeError,
    SlowRequestError,
    shortened,
)
from antiphon.telemetry.metrics import Metrics

M = TypeVar("M", bound=BaseModel)

NOT_AN_OBJECT = (
    "The request body must be a JSON object, sent with 'Content-Type: application/json'."
)
MAX_SHOWN_CHARACTERS = 60
MAX_EXPLAINED = 5

_BRANCH = re.compile(r"str|int|float|bool|(list|dict|tuple)\[.*\]")
"""Parts of pydantic's paths that are branches of a union, and no members."""

_EXPECTED_BY_TYPE = {
    "string_type": "a string",
    "string_unicode": "a string of valid Unicode",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    "finite_number": "a finite number",
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "an integer"),
    "int_parsing_size": "an integer of at most 64 bits",
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type"), "a list"),
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "an object"),
    "greater_than_equal": "at least {ge}",
    "greater_than": "greater than {gt}",
    "less_than_equal": "at most {le}",
    "less_than": "less than {lt}",
    "string_too_short": "at least {min_length} characters long",
    "string_too_long": "at most {max_length} characters long",
    "too_short": "at least {min_length} long",
    "too_long": "at most {max_length} long",
    **dict.fromkeys(("enum", "literal_error"), "one of {expected}"),
}

logger = logging.getLogger(__name__)
CLIENT_LEFT_STATUS = 499
"""Booked for a client that leaves while it sends its request, as nginx does; no one receives it."""
_CLIENT_LEFT = (ClientDisconnect, WebSocketDisconnect)
_UNREADABLE = "There was an error parsing the body"
"""FastAPI's message for JSON that Python's own reader gives up on."""
UNREADABLE_BODY = (
    "The request body cannot be read: it is not valid JSON, or is nested too deeply, or has a"
    " number of too many digits."
)
_CODES_BY_STATUS = {404: "not_found", 405: "method_not_allowed", 413: "request_too_large"}


def validated(model: type[M], members: Mapping[str, Any], place: str = "body") -> M:
    """Return a model of members; raises InvalidRequestError."""
    try:
        return model.model_validate(members)
    except ValidationError as error:
        found = [{**each, "loc": (place, *each["loc"])} for each in error.errors()]
        raise invalid_request(found) from error


def invalid_request(errors: Iterable[Mapping[str, Any]]) -> InvalidRequestError:
    """Turn a `ValidationError`'s list into one error; ``param`` is the first field at fault."""
    explained = [_explained(error) for error in islice(errors, MAX_EXPLAINED)]
    messages, params, codes = zip(*explained, strict=True)
    return InvalidRequestError(" ".join(dict.fromkeys(messages)), param=params[0], code=codes[0])


def _explained(error: Mapping[str, Any]) -> tuple[str, str | None, str]:
    kind, path = error["type"], error["loc"][1:]  # the first part is "body" or "query"
    context = error.get("ctx", {})
    if kind == "json_invalid":
        reason = shortened(str(context["error"]))
        return f"The request body is not valid JSON: {reason}.", None, "invalid_json"
    if not path and kind != "unknown_field":
        return NOT_AN_OBJECT, None, "invalid_value"
    param = ".".join(shortened(str(part)) for part in path if not _BRANCH.fullmatch(str(part)))
    if kind == "unknown_field":
        param = f"{param}.{context['member']}" if param else context["member"]
        return f"Unknown field: '{param}'. {context['hint']}", param, "unknown_field"
    if kind == "unserved_field":
        return f"'{param}' is not supported here. {context['advice']}", param, "not_supported"
    if kind == "missing":
        return f"Missing required parameter: '{param}'.", param, "missing_required_parameter"
    if kind not in _EXPECTED_BY_TYPE:
        return f"Invalid '{param}': {error['msg']}.", param, "invalid_value"
    plain = {
        name: value.replace("'", "").replace(" or ", ", ") if isinstance(value, str) else value
        for name, value in context.items()
    }
    expected = _EXPECTED_BY_TYPE[kind].format_map(plain)
    message = f"Invalid '{param}'{_shown(error['input'])}. It must be {expected}."
    return message, param, "invalid_value"


def _shown(value: Any) -> str:
    """Quote a value that is short enough to be of help."""
    is_long = isinstance(value, str) and len(value) > MAX_SHOWN_CHARACTERS
    if is_long or not isinstance(value, str | int | float):
        return ""
    shown = str(value).lower() if isinstance(value, bool) else ascii(value)
    return f": {shown}" if len(shown) <= MAX_SHOWN_CHARACTERS else ""


@dataclass(frozen=True, slots=True)
class WireError:
    """A failure as a client sees it."""

    status: int
    message: str
    type: str
    param: str | None = None
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        error = {"message": self.message, "type": self.type, "param": self.param, "code": self.code}
        return {"error": error}

    def response(self) -> Response:
        return JSONResponse(self.body(), self.status, dict(self.headers))


def wire_error(error: Exception) -> WireError:
    """Describe any exception; an unexpected one shows no internals."""
    if isinstance(error, RequestValidationError):
        return _of_antiphon(invalid_request(error.errors()))
    if isinstance(error, _CLIENT_LEFT) or isinstance(error.__cause__, _CLIENT_LEFT):
        message, code = "The client left before its request was complete.", "client_disconnected"
        return WireError(CLIENT_LEFT_STATUS, message, "invalid_request_error", code=code)
    if isinstance(error, HTTPException):
        # FastAPI wraps whatever fails while a body is read; what it was is the cause.
        cause = error.__cause__
        if isinstance(cause, AntiphonError):
            return _of_antiphon(cause)
        if error.detail == _UNREADABLE:
            return _of_antiphon(InvalidRequestError(UNREADABLE_BODY, code="invalid_json"))
        return _of_http(error)
    if isinstance(error, AntiphonError):
        return _of_antiphon(error)
    headers = {"x-should-retry": "false"}  # a bug meets the same request again
    return WireError(500, "Internal server error.", "server_error", None, "internal_error", headers)


def _of_antiphon(error: AntiphonError) -> WireError:
    headers = {}
    if error.retry_after_s is not None:
        headers["Retry-After"] = str(math.ceil(error.retry_after_s))
        headers["retry-after-ms"] = str(math.ceil(error.retry_after_s * 1000))
    if isinstance(error, AuthenticationError):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, RequestTooLargeError | SlowRequestError):
        headers["Connection"] = "close"  # the rest of the body is not waited for
    return WireError(error.status, error.message, error.type, error.param, error.code, headers)


def _of_http(error: HTTPException) -> WireError:
    is_fault = error.status_code >= 500
    kind = "server_error" if is_fault else "invalid_request_error"
    usual = "internal_error" if is_fault else "invalid_value"
    code, message = _CODES_BY_STATUS.get(error.status_code, usual), f"{error.detail.rstrip('.')}."
    return WireError(error.status_code, message, kind, None, code, error.headers or {})


def _described(error: Exception, scope: Scope) -> WireError:
    """Describe an error that ends a request; the framework's own name the address."""
    described = wire_error(error)
    if not isinstance(error, HTTPException) or error.detail != HTTPStatus(error.status_code).phrase:
        return described
    # A path that a client has probably left ``/v1`` out of.
    moved = {**scope, "path": f"/v1{scope['path']}"}
    routes = scope["app"].routes if error.status_code == HTTPStatus.NOT_FOUND else ()
    is_there = any(route.matches(moved)[0] is Match.FULL for route in routes)
    hint = f" Did you mean {moved['path']}?" if is_there else ""
    return replace(described, message=f"{error.detail}: {scope['method']} {scope['path']}.{hint}")


@asynccontextmanager
async def on_failure(report: Callable[[Exception], Awaitable[bool]]) -> AsyncGenerator[None, None]:
    """Report every failure; re-raise it unless ``report`` has answered the request."""
    try:
        yield
    except Exception as error:  # the API's one door for faults
        if not await report(error):
            raise


@asynccontextmanager
async def failures_to(
    send: Callable[[WireError], Awaitable[None]], metrics: Metrics
) -> AsyncGenerator[None, None]:
    """Send failures to the client of a WebSocket; those that end the connection are raised."""

    async def report(error: Exception) -> bool:
        if isinstance(error, WebSocketDisconnect | IdleError):
            return False
        record_failure(error, metrics, has_started=True)
        free_frames(error)
        await send(wire_error(error))
        return True

    async with on_failure(report):
        yield


class ErrorMiddleware:
    """Answers failures; once a response has begun, lets them break the connection."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_started = False

        async def noted(message: Message) -> None:
            nonlocal has_started
            has_started = True
            await send(message)

        async def report(error: Exception) -> bool:
            record_failure(error, self._metrics, has_started=has_started)
            free_frames(error)
            if isinstance(error, WebSocketDisconnect):
                return True  # no answer reaches the client
            if has_started:
                return False
            await _described(error, scope).response()(scope, receive, send)
            return True

        async with on_failure(report):
            await self._app(scope, receive, noted)


def free_frames(error: BaseException) -> None:
    """Let go of what the calls that failed held: bodies, for instance.

    Such a call and its exception often refer to each other, and would both stay until the garbage
    collector comes. Tracebacks go too: a call that has caught an error and goes on is in them, and
    clearing it would end it where the error is the context of a later one.
    """
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or each.__traceback__ is None:
            continue
        traceback.clear_frames(each.__traceback__)
        each.__traceback__ = None
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions


def record_failure(error: Exception, metrics: Metrics, *, has_started: bool) -> None:
    """Count a failure, and log it without its message where that may quote what a client sent."""
    described = wire_error(error)
    metrics.errors.labels(described.code or "none", "stream" if has_started else "start").inc()
    when = "after its response had begun" if has_started else "before its response"
    known = (AntiphonError, HTTPException, RequestValidationError, *_CLIENT_LEFT)
    kind = {"failure": f"{described.status} {described.code}"}
    if not isinstance(error, known):
        kind = {"failure": type(error).__name__}
        logger.error("unexpected failure of a request %s", when, exc_info=error, extra=kind)
    elif described.status >= 500:
        logger.error("%d %s %s: %s", described.status, described.code, when, error, extra=kind)
    else:
        logger.info("%d %s %s", described.status, described.code, when, extra=kind)
