"""Parts of files, as ``Range`` asks for them: one part at a time, or the whole."""

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import closing

from starlette.exceptions import HTTPException
from starlette.requests import Request

from antiphon.api.streaming import Pieces, StreamedResponse
from antiphon.concurrency import Workers
from antiphon.storage.faults import storage_faults

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def file_response(
    request: Request,
    workers: Workers,
    read: Callable[[int, int], Iterator[bytes]],
    *,
    num_bytes: int,
    media_type: str,
    etag: str,
) -> StreamedResponse[bytes]:
    """Answer a request for a file; raises HTTPException.

    Args:
        read: yields the bytes from one place to before another; blocks.
        etag: changes when the content does.
    """
    headers = {"Accept-Ranges": "bytes", "ETag": f'"{etag}"', "Cache-Control": "private"}
    part = requested_part(num_bytes, etag, request)
    start, stop = part or (0, num_bytes)
    if part is not None:
        headers["Content-Range"] = f"bytes {start}-{stop - 1}/{num_bytes}"
    headers["Content-Length"] = str(stop - start)
    response = StreamedResponse(_read(read(start, stop), workers), headers, media_type)
    response.status_code = 200 if part is None else 206
    return response


def requested_part(num_bytes: int, etag: str, request: Request) -> tuple[int, int] | None:
    """Return start and stop, or ``None`` for all; anything else is ignored; raises HTTPException.

    Args:
        etag: tag of its content, without quotes.
    """
    wanted = _RANGE.fullmatch(request.headers.get("Range", "").replace(" ", ""))
    if wanted is None or wanted[1] == wanted[2] == "":
        return None
    if request.headers.get("If-Range", f'"{etag}"') != f'"{etag}"':
        return None
    if not wanted[1]:
        start, stop = max(0, num_bytes - int(wanted[2])), num_bytes
    else:
        start = int(wanted[1])
        stop = min(num_bytes, int(wanted[2]) + 1) if wanted[2] else num_bytes
    if start >= stop:
        raise HTTPException(
            416, f"The file has {num_bytes} bytes", {"Content-Range": f"bytes */{num_bytes}"}
        )
    return start, stop


async def _read(file: Iterator[bytes], workers: Workers) -> Pieces:
    with closing(_guarded(file)) as pieces:
        while (piece := await workers.run(next, pieces, None)) is not None:
            yield piece


def _guarded(pieces: Iterator[bytes]) -> Generator[bytes, None, None]:
    with storage_faults():
        yield from pieces
