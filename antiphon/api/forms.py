"""Lets a route that takes a JSON object take a form with the same fields too."""

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi.routing import APIRoute
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.multipart import MULTIPART, media_type, read_multipart

Fields = dict[str, str | bytes]


class FormRoute(APIRoute):
    """Reads multipart/form-data as if it were a JSON object.

    A file's content becomes bytes, a field that is left empty is left out.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle_json = super().get_route_handler()

        async def handle(request: Request) -> Response:
            if media_type(request) != MULTIPART:
                return await handle_json(request)
            return await handle_json(_FormRequest(request, await _fields(request)))

        return handle


class _FormRequest(Request):
    """A request whose JSON body is a form's fields."""

    def __init__(self, request: Request, fields: Fields) -> None:
        headers = [each for each in request.scope["headers"] if each[0] != b"content-type"]
        headers.append((b"content-type", b"application/json"))
        super().__init__({**request.scope, "headers": headers}, request.receive)
        self._fields = fields

    async def body(self) -> bytes:
        return b"{}"  # it has been read already, by the form

    async def json(self) -> Any:
        return self._fields


async def _fields(request: Request) -> Fields:
    """Read the form.

    Raises:
        HTTPException: it is no form.
    """
    fields: Fields = {}
    async with read_multipart(request) as form:
        for name, value in form.multi_items():
            content = await value.read() if isinstance(value, UploadFile) else value
            if content:
                fields[name] = content
    return fields
