"""Words that a voice leaves out: in a header, or in events beside encoded audio."""

from typing import Any
from urllib.parse import quote

from antiphon.contracts.types import AudioChunk

HEADER = "X-Unspoken-Text"
OMITTED_HEADER = "X-Unspoken-Text-Omitted"
MAX_HEADER_BYTES = 1024


class UnspokenCollector:
    """Collects the words that a stream's chunks leave out."""

    def __init__(self) -> None:
        self._words: tuple[str, ...] = ()

    def add(self, chunk: AudioChunk) -> None:
        """Add the words that a chunk leaves out."""
        self._words += chunk.unspoken

    def headers(self) -> dict[str, str]:
        """Return what is known by the first audio: all, of a text that came whole."""
        return unspoken_headers(self._words)


def unspoken_headers(words: tuple[str, ...]) -> dict[str, str]:
    """Return words in a header, percent-encoded, with commas between; none without words.

    Those that find no place in `MAX_HEADER_BYTES` are counted in another header.
    """
    listed: list[str] = []
    num_bytes = 0
    for word in words:
        coded = quote(word, safe="", errors="replace")
        num_bytes += len(coded) + 1
        if num_bytes > MAX_HEADER_BYTES:
            return {HEADER: ",".join(listed), OMITTED_HEADER: str(len(words) - len(listed))}
        listed.append(coded)
    return {HEADER: ",".join(listed)} if listed else {}


def unspoken_member(words: tuple[str, ...]) -> dict[str, Any]:
    """Return the member of an event that lists them; none without words."""
    return {"unspoken": list(words)} if words else {}
