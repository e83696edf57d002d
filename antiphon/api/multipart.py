"""Forms are read into memory, within the limit of a body: recordings do not touch the disk."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

from starlette.datastructures import FormData
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request

MAX_PARTS = 100
MULTIPART = "multipart/form-data"


class _InMemoryParser(MultiPartParser):
    spool_max_size = sys.maxsize  # Starlette's own puts larger files into the temporary folder


@asynccontextmanager
async def read_multipart(request: Request) -> AsyncGenerator[FormData, None]:
    """Read a form; the server's limit of a body bounds all its parts together.

    Raises:
        HTTPException: it is no form.
    """
    max_bytes = request.app.state.server.settings.server.max_body_bytes
    try:
        async with aclosing(request.stream()) as stream:
            parser = _InMemoryParser(
                request.headers,
                stream,
                max_files=MAX_PARTS,
                max_fields=MAX_PARTS,
                max_part_size=max_bytes,
            )
            form = await parser.parse()
    except MultiPartException as error:
        raise HTTPException(400, error.message) from error
    try:
        yield form
    finally:
        await form.close()


def media_type(request: Request) -> str:
    """Return the media type of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()
