"""Audio in JSON, with the time of each character beside it, as ElevenLabs sends it."""

from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias

from antiphon.api.adapters.alignment import Alignment, SpokenText
from antiphon.api.adapters.files import json_line, json_lines, json_whole
from antiphon.api.state import ServerState
from antiphon.api.streaming import Pieces
from antiphon.api.wire_format import WireFormat
from antiphon.types import SpeechStream

More: TypeAlias = Callable[[], Mapping[str, Any]]
"""Returns further members of a piece's JSON."""


def nothing_more() -> Mapping[str, Any]:
    """Add no members."""
    return {}


async def timed_lines(
    events: SpeechStream, text: str, format: WireFormat, server: ServerState, more: More
) -> Pieces:
    """Yield a JSON object a line, each with a piece of a file.

    Args:
        events: what is spoken.
        text: what it says.
        format: of the file.
        server: encodes it.
        more: called for each line.
    """
    spoken = SpokenText(text)

    def line(audio: bytes) -> bytes:
        return _line(audio, spoken.take(), more())

    async with aclosing(json_lines(spoken.passed(events), format, server, line)) as lines:
        async for each in lines:
            yield each
    rest, members = spoken.finish(), more()
    if rest is not None or any(members.values()):
        yield _line(b"", rest, members)


async def timed_whole(
    events: SpeechStream, text: str, format: WireFormat, server: ServerState, more: More
) -> tuple[list[bytes], dict[str, str]]:
    """Return one JSON object with a whole file; see `timed_lines` and `json_whole`."""
    spoken = SpokenText(text)

    def line(audio: bytes) -> bytes:
        return _line(audio, spoken.finish(), more())

    return await json_whole(spoken.passed(events), format, server, line)


def _line(audio: bytes, alignment: Alignment | None, more: Mapping[str, Any]) -> bytes:
    written = alignment.written if alignment else None
    read = alignment.read if alignment else None
    members = {
        "alignment": written.in_seconds() if written else None,
        "normalized_alignment": read.in_seconds() if read else None,
        **more,
    }
    return json_line("audio_base64", audio, members)
