"""What a voice leaves out of a text, beside a stream that is encoded: in a header, or in events."""

from contextlib import aclosing
from typing import Any
from urllib.parse import quote

from antiphon.types import AudioChunk, SpeechStream

HEADER = "X-Unspoken-Text"
OMITTED_HEADER = "X-Unspoken-Text-Omitted"
MAX_HEADER_BYTES = 1024


class UnspokenCollector:
    """Passes a stream on, and keeps what its chunks say is left out."""

    def __init__(self) -> None:
        self._words: tuple[str, ...] = ()

    async def passed(self, events: SpeechStream) -> SpeechStream:
        async with aclosing(events):
            async for event in events:
                if isinstance(event, AudioChunk):
                    self._words += event.unspoken
                yield event

    def headers(self) -> dict[str, str]:
        """Return what is known by the first audio: all, of a text that came whole."""
        return unspoken_headers(self._words)


def unspoken_headers(words: tuple[str, ...]) -> dict[str, str]:
    """Return words in a header, percent-encoded, with commas between; none without words.

    Those that find no place in `MAX_HEADER_BYTES` are counted in another header.
    """
    told: list[str] = []
    num_bytes = 0
    for word in words:
        coded = quote(word, safe="", errors="replace")
        num_bytes += len(coded) + 1
        if num_bytes > MAX_HEADER_BYTES:
            return {HEADER: ",".join(told), OMITTED_HEADER: str(len(words) - len(told))}
        told.append(coded)
    return {HEADER: ",".join(told)} if told else {}


def unspoken_member(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the member of an event that tells it; none without words."""
    return {"unspoken": list(words)} if words else {}
