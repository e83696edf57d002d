"""Bodies of requests: JSON, read in steps, and forms that bring files, read into the same fields.

Forms are read into memory, within the limit of a body: recordings do not touch the disk.
"""

import asyncio
import codecs
import json
import sys
from collections.abc import Callable, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_to_bytes

from fastapi.routing import APIRoute
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from antiphon.api.errors import NOT_AN_OBJECT
from antiphon.api.middleware.body import FORMS
from antiphon.api.middleware.json_limits import MAX_ESCAPES
from antiphon.audio.media_type import media_type_of
from antiphon.contracts.well_formed import check_members
from antiphon.errors import AntiphonError, InvalidRequestError, invalid, missing

_MAX_BYTES_AT_ONCE = 1024 * 1024
"""A body of this size is decoded, parsed and validated within a few milliseconds."""


MAX_PARTS = 100
SLICE_BYTES = 64 * 1024
MULTIPART = "multipart/form-data"
MEDIA_TYPES = ("mpeg", "wav", "x-wav", "ogg", "aac", "flac", "webm", "mp4")
_CONTAINERS = ("application/octet-stream", "application/ogg", "video/mp4", "video/webm")
_WRONG_BODY = (
    "The request body must be a form, sent with 'Content-Type: multipart/form-data', or a JSON"
    " object."
)


class JsonRoute(APIRoute):
    """Keeps bodies of megabytes from holding the event loop."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_prepared(request: Request) -> Response:
            prepared = await self.prepared(request)
            response = await self.answered(prepared)
            return await handle(prepared) if response is None else response

        return handle_prepared

    async def answered(self, request: Request) -> Response | None:
        """Answer a prepared request without the framework; ``None``: it is left to that."""
        return None

    async def prepared(self, request: Request) -> Request:
        """Return a request from which the framework reads the body."""
        return _SteppedRequest(request.scope, request.receive)


class _SteppedRequest(Request):
    """A request that yields to the event loop before and after each step of reading JSON."""

    async def json(self) -> Any:
        if not hasattr(self, "_json"):
            body = await self.body()
            if len(body) <= _MAX_BYTES_AT_ONCE:
                return await super().json()
            text = await _decoded(body)
            await asyncio.sleep(0)
            self._json = json.loads(text)
            await asyncio.sleep(0)
        return self._json


async def read_json(request: Request) -> Any:
    """Return the JSON of a body; what fails while it arrives is raised as by the framework."""
    try:
        await request.body()
    except (AntiphonError, ClientDisconnect) as error:
        raise HTTPException(400, str(error)) from error
    return await request.json()


async def _decoded(body: bytes) -> str:
    """Decode as `json.loads` does."""
    decoder = codecs.getincrementaldecoder(json.detect_encoding(body))("surrogatepass")
    pieces = []
    for start in range(0, len(body), _MAX_BYTES_AT_ONCE):
        await asyncio.sleep(0)
        pieces.append(decoder.decode(body[start : start + _MAX_BYTES_AT_ONCE]))
    pieces.append(decoder.decode(b"", final=True))
    return "".join(pieces)


@dataclass(frozen=True, slots=True)
class Upload:
    """A file of a form.

    Attributes:
        declared_type: Media type declared by the client; ``""`` if there is none.
    """

    content: bytes
    declared_type: str = ""


@dataclass(frozen=True, slots=True)
class Fields:
    """The fields of a body; those that are empty or null are not there.

    Attributes:
        values: Fields by name; the last of those that were repeated.
        every: All values of a form by name, in order.
    """

    values: Mapping[str, Any]
    num_given: Mapping[str, int] = field(default_factory=dict)
    every: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)

    @classmethod
    async def of(cls, request: Request) -> "Fields":
        """Read a body; the server's limit bounds all its parts together.

        Raises:
            InvalidRequestError: it is neither a form nor a JSON object.
            HTTPException: it is a form that cannot be read.
        """
        if request.headers.get("content-type", "").lower().startswith(FORMS):
            return await _form(request)
        try:
            values = await request.json()
        except (ValueError, RecursionError) as error:
            raise InvalidRequestError(_WRONG_BODY, code="invalid_json") from error
        if not isinstance(values, dict):
            raise InvalidRequestError(NOT_AN_OBJECT)
        check_members(values)
        return cls(_given(values))

    def text(self, name: str) -> str | None:
        """Return a text, ``None`` if it is not there; raises InvalidRequestError."""
        value = self.values.get(name)
        if isinstance(value, Upload):
            try:
                return value.content.decode()
            except UnicodeDecodeError:
                value = value.content
        if value is not None and not isinstance(value, str):
            raise invalid(name, "it must be a string")
        return value

    def required_text(self, name: str) -> str:
        """Return a text; raises InvalidRequestError if it is not there, or something else."""
        value = self.text(name)
        if value is None:
            raise missing(name)
        return value

    def recording(self, name: str) -> tuple[bytes, str] | None:
        """Return an audio file and its media type, by its content; raises InvalidRequestError."""
        value = self.values.get(name)
        if value is None:
            return None
        if not isinstance(value, Upload):
            raise invalid(name, "it must be a file of a form (multipart/form-data)")
        declared = value.declared_type.partition(";")[0].strip().lower()
        if declared and not declared.startswith("audio/") and declared not in _CONTAINERS:
            allowed = ", ".join(f"audio/{each}" for each in MEDIA_TYPES)
            raise invalid(name, f"its type is '{declared[:60]}'; it must be one of {allowed}")
        return value.content, media_type_of(value.content)


class FormRoute(JsonRoute):
    """Lets a route that takes a JSON object take a form of either kind with the same members.

    A file's content becomes bytes, a field that is left empty is left out.
    """

    async def prepared(self, request: Request) -> Request:
        if not request.headers.get("content-type", "").lower().startswith(FORMS):
            return await super().prepared(request)
        return _FormRequest(request, (await Fields.of(request)).values)


def came_as_form(request: Request) -> bool:
    """Whether the body that a `FormRoute` has read as JSON was a form."""
    return isinstance(request, _FormRequest)


class _FormRequest(Request):
    """A request whose JSON body is a form's fields."""

    def __init__(self, request: Request, fields: Mapping[str, Any]) -> None:
        headers = [each for each in request.scope["headers"] if each[0] != b"content-type"]
        headers.append((b"content-type", b"application/json"))
        super().__init__({**request.scope, "headers": headers}, request.receive)
        self._fields = {
            name: value.content if isinstance(value, Upload) else value
            for name, value in fields.items()
        }

    async def body(self) -> bytes:
        return b"{}"  # it has been read already, by the form

    async def json(self) -> Any:
        return self._fields


class _InMemoryParser(MultiPartParser):
    spool_max_size = sys.maxsize  # Starlette's own puts larger files into the temporary folder


async def _form(request: Request) -> Fields:
    every: dict[str, tuple[Any, ...]] = {}
    form = await _parsed(request)
    try:
        for name, value in form.multi_items():
            await asyncio.sleep(0)  # decoding texts of megabytes has taken a while
            every[name] = (*every.get(name, ()), await _read(value))
    finally:
        await form.close()
    last = {name: values[-1] for name, values in every.items()}
    num_given = {name: len(values) for name, values in every.items()}
    return Fields(_given(last), num_given, every)


async def _read(value: UploadFile | str) -> Upload | str | None:
    if isinstance(value, str):
        return value
    content = await value.read()
    return Upload(content, value.content_type or "") if content else None


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value not in (None, "")}


def urlencoded(body: bytes) -> list[tuple[str, str]]:
    """Return the fields of a urlencoded form, in order; raises InvalidRequestError."""
    if body.count(b"&") < MAX_PARTS and body.count(b"%") <= MAX_ESCAPES:
        fields = (field.partition(b"=") for field in body.split(b"&") if field)
        try:
            return [(_unquoted(name), _unquoted(value)) for name, _, value in fields]
        except UnicodeDecodeError:
            pass
    raise InvalidRequestError(
        f"The form cannot be read. It must be urlencoded UTF-8 of at most {MAX_PARTS} fields and"
        f" {MAX_ESCAPES} escaped bytes."
    )


def _unquoted(quoted: bytes) -> str:
    """Decode a name or a value in slices, so that no native call takes long."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    pieces, start = [], 0
    while start < len(quoted):
        end = start + SLICE_BYTES
        if end < len(quoted) and (cut := quoted.find(b"%", end - 2, end)) >= 0:
            end = cut  # an escape that began in this slice ends in the next
        pieces.append(decoder.decode(unquote_to_bytes(quoted[start:end].replace(b"+", b" "))))
        start = end
    return "".join([*pieces, decoder.decode(b"", final=True)])


async def _parsed(request: Request) -> FormData:
    """Parse a form; the server's limit of a body bounds all its parts together."""
    server = request.app.state.server
    max_bytes = server.settings.server.max_body_bytes
    if not request.headers["content-type"].lower().startswith(MULTIPART):
        body = await request.body()
        # A megabyte takes a tenth of a second, in which the event loop has to go on.
        return FormData(await server.encoders.run(urlencoded, body))
    try:
        async with aclosing(request.stream()) as stream:
            limits = {"max_files": MAX_PARTS, "max_fields": MAX_PARTS, "max_part_size": max_bytes}
            return await _InMemoryParser(request.headers, stream, **limits).parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from error
