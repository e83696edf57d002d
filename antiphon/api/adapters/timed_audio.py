"""Audio in JSON, with the time of each character beside it, as ElevenLabs sends it."""

import base64
import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeAlias

from antiphon.api.adapters.alignment import Alignment, SpokenText
from antiphon.api.encoding import collected, encoded
from antiphon.api.middleware import memory_budget
from antiphon.api.state import ServerState
from antiphon.api.streaming import Pieces
from antiphon.api.wire_format import WireFormat
from antiphon.types import Ended, SpeechStream

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
        format: of the file, with a sample rate.
        server: encodes it.
        more: called for each line.
    """
    assert format.sample_rate_hz is not None
    spoken = SpokenText(text)
    passed = spoken.passed(events)
    encoding = encoded(passed, format.coded_as, format.sample_rate_hz, server.encoders)
    async with aclosing(encoding) as items:
        async for item in items:
            if not isinstance(item, Ended):
                yield _line(format.finished(item), spoken.take(), more())
    rest, told = spoken.finish(), more()
    if rest is not None or any(told.values()):
        yield _line(b"", rest, told)


async def timed_whole(
    events: SpeechStream, text: str, format: WireFormat, server: ServerState, more: More
) -> bytes:
    """Return one JSON object with a whole file; see `timed_lines`."""
    assert format.sample_rate_hz is not None
    spoken = SpokenText(text)
    passed = spoken.passed(events)
    pieces, _ = await collected(passed, format.coded_as, format.sample_rate_hz, server.encoders)
    memory_budget.count_as_base64(sum(map(len, pieces)))
    audio = b"".join(map(format.finished, pieces))
    return await server.encoders.run(_line, audio, spoken.finish(), more())


def _line(audio: bytes, alignment: Alignment | None, more: Mapping[str, Any]) -> bytes:
    written = alignment.written if alignment else None
    read = alignment.read if alignment else None
    told = {
        "audio_base64": base64.b64encode(audio).decode(),
        "alignment": written.in_seconds() if written else None,
        "normalized_alignment": read.in_seconds() if read else None,
        **more,
    }
    return json.dumps(told, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
