"""Answers that other vendors' clients want: a file while it is made, or audio inside JSON."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from starlette.responses import Response

from antiphon.api.encoding import ChunkObserver, FileEncoding
from antiphon.api.middleware import memory_budget
from antiphon.api.state import ServerState
from antiphon.api.streaming import StreamedResponse
from antiphon.api.wire_format import WireFormat
from antiphon.contracts.types import Ended, SpeechStream

JSON_LINES = "application/x-ndjson"
JsonLine = Callable[[bytes], bytes]
"""Makes a line of JSON of a piece of a file; see `json_line`."""


def file_response(
    events: SpeechStream,
    format: WireFormat,
    server: ServerState,
    headers: Mapping[str, str] | None = None,
    *,
    prefix: bytes = b"",
) -> Response:
    """Stream a file; ``prefix`` stands before its first piece."""
    prefixes = iter((prefix,))

    def written(item: bytes | Ended) -> bytes:
        return b"" if isinstance(item, Ended) else next(prefixes, b"") + format.finished(item)

    pieces = _encoding(format, server).pieces(events)
    return StreamedResponse(pieces, headers or {}, format.media_type, write=written)


def json_lines(
    events: SpeechStream,
    format: WireFormat,
    server: ServerState,
    line: JsonLine,
    *,
    last_line: Callable[[], bytes] = bytes,
    headers: Mapping[str, str] | None = None,
    media_type: str = "application/json",
    observers: Sequence[ChunkObserver] = (),
) -> Response:
    """Stream a JSON object a line, each with a piece of a file; ``last_line`` may be empty."""

    def written(item: bytes | Ended) -> bytes:
        return last_line() if isinstance(item, Ended) else line(format.finished(item))

    pieces = _encoding(format, server).pieces(events, observers)
    return StreamedResponse(pieces, headers or {}, media_type, write=written)


async def json_whole(
    events: SpeechStream,
    format: WireFormat,
    server: ServerState,
    line: JsonLine,
    observers: Sequence[ChunkObserver] = (),
) -> tuple[list[bytes], dict[str, str]]:
    """Return one JSON object with a whole file, and no headers: for `WholeResponse`."""
    encoding = _encoding(format, server, is_whole=True)
    pieces, _ = await encoding.collected(events, observers)
    memory_budget.count_as_base64(sum(map(len, pieces)))
    audio = b"".join(map(format.finished, pieces))
    return [await server.encoders.run(line, audio)], {}


def json_line(audio_member: str, audio: bytes, members: Mapping[str, Any]) -> bytes:
    """Return an object with audio in base64, before its other members."""
    described = {audio_member: base64.b64encode(audio).decode(), **members}
    return json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _encoding(format: WireFormat, server: ServerState, *, is_whole: bool = False) -> FileEncoding:
    rate_hz = format.sample_rate_hz
    assert rate_hz is not None, "the format is that of a model"
    return FileEncoding(
        format.coded_as, rate_hz, server.encoders, format.channels, is_whole=is_whole
    )
