"""Answers that other vendors' clients want: a file while it is made, or audio inside JSON."""

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any

from starlette.responses import Response

from antiphon.api.encoding import collected, encoded
from antiphon.api.middleware import memory_budget
from antiphon.api.state import ServerState
from antiphon.api.streaming import Pieces, StreamedResponse
from antiphon.api.wire_format import WireFormat
from antiphon.types import Ended, SpeechStream

JsonLine = Callable[[bytes], bytes]
"""Makes a line of JSON of a piece of a file; see `json_line`."""


async def file_pieces(events: SpeechStream, format: WireFormat, server: ServerState) -> Pieces:
    """Yield a file's bytes."""
    rate_hz = _rate_hz(format, server)
    async with aclosing(encoded(events, format.coded_as, rate_hz, server.encoders)) as stream:
        async for item in stream:
            if not isinstance(item, Ended):
                yield format.finished(item)


def file_response(
    events: SpeechStream,
    format: WireFormat,
    server: ServerState,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Stream a file."""
    return StreamedResponse(file_pieces(events, format, server), headers or {}, format.media_type)


async def json_lines(
    events: SpeechStream, format: WireFormat, server: ServerState, line: JsonLine
) -> Pieces:
    """Yield a JSON object a line, each with a piece of a file."""
    async with aclosing(file_pieces(events, format, server)) as pieces:
        async for piece in pieces:
            yield line(piece)


async def json_whole(
    events: SpeechStream, format: WireFormat, server: ServerState, line: JsonLine
) -> tuple[list[bytes], dict[str, str]]:
    """Return one JSON object with a whole file, and no headers: for `WholeResponse`."""
    rate_hz = _rate_hz(format, server)
    pieces, _ = await collected(events, format.coded_as, rate_hz, server.encoders)
    memory_budget.count_as_base64(sum(map(len, pieces)))
    audio = b"".join(map(format.finished, pieces))
    return [await server.encoders.run(line, audio)], {}


def json_line(audio_member: str, audio: bytes, members: Mapping[str, Any]) -> bytes:
    """Return an object with audio in base64, before its other members."""
    described = {audio_member: base64.b64encode(audio).decode(), **members}
    return json.dumps(described, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _rate_hz(format: WireFormat, server: ServerState) -> int:
    return format.sample_rate_hz or server.speech.model(None).capabilities.sample_rate_hz
