"""/v1/media: images and videos that are kept for a while, by their address."""

from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from antiphon.api.http_ranges import file_response
from antiphon.api.schemas.error import ErrorBody
from antiphon.api.state import Asking, Server

router = APIRouter(tags=["media"])

_FILE = {"schema": {"type": "string", "format": "binary"}}


@router.head("/v1/media/{key:path}", include_in_schema=False)
@router.get(
    "/v1/media/{key:path}",
    response_class=Response,
    responses={
        200: {"description": "The file.", "content": {"image/*": _FILE, "video/mp4": _FILE}},
        404: {"model": ErrorBody, "description": "It does not exist, or belongs to another key."},
    },
)
async def get_media(key: str, request: Request, server: Server, caller: Asking) -> Response:
    """Download a file, or the part of it that ``Range`` asks for."""
    media = server.media
    kept = await media.workers.run(media.store.find, key, caller)
    return file_response(
        request,
        media.workers,
        partial(media.store.read, key),
        num_bytes=kept.num_bytes,
        media_type=kept.media_type,
        etag=key.rpartition("/")[2],  # a file never changes
    )
