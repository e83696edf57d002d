"""Audio in JSON, with the time of each character beside it, as ElevenLabs sends it."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from starlette.responses import Response

from antiphon.api.adapters.alignment import Alignment, SpokenText
from antiphon.api.adapters.files import JSON_LINES, json_line, json_lines, json_whole
from antiphon.api.state import ServerState
from antiphon.api.wire_format import WireFormat
from antiphon.contracts.types import SpeechStream

More: TypeAlias = Callable[[], Mapping[str, Any]]
"""Returns further members of a piece's JSON."""


def timed_lines(
    events: SpeechStream,
    text: str,
    format: WireFormat,
    server: ServerState,
    more: More,
    headers: Mapping[str, str],
) -> Response:
    """Stream a JSON object a line: a piece of a file, and the members that ``more`` gives."""
    spoken = SpokenText(text)

    def line(audio: bytes) -> bytes:
        return _line(audio, spoken.take(), more())

    def last_line() -> bytes:
        rest, members = spoken.finish(), more()
        is_empty = rest is None and not any(members.values())
        return b"" if is_empty else _line(b"", rest, members)

    return json_lines(
        events,
        format,
        server,
        line,
        last_line=last_line,
        headers=headers,
        media_type=JSON_LINES,
        observers=(spoken.add_chunk,),
    )


async def timed_whole(
    events: SpeechStream, text: str, format: WireFormat, server: ServerState, more: More
) -> tuple[list[bytes], dict[str, str]]:
    """Return one JSON object with a whole file; see `timed_lines` and `json_whole`."""
    spoken = SpokenText(text)

    def line(audio: bytes) -> bytes:
        return _line(audio, spoken.finish(), more())

    return await json_whole(events, format, server, line, (spoken.add_chunk,))


def _line(audio: bytes, alignment: Alignment | None, more: Mapping[str, Any]) -> bytes:
    written = alignment.written if alignment else None
    read = alignment.read if alignment else None
    members = {
        "alignment": written.in_seconds() if written else None,
        "normalized_alignment": read.in_seconds() if read else None,
        **more,
    }
    return json_line("audio_base64", audio, members)
