"""When words are spoken: in events beside encoded audio, or in a header."""

import json
from typing import Any

from antiphon.contracts.types import AudioChunk, WordTime

HEADER = "X-Word-Timestamps"
OMITTED_HEADER = "X-Word-Timestamps-Omitted"
MAX_HEADER_BYTES = 4096


class WordTimestampCollector:
    """Keeps the words of a stream's chunks."""

    def __init__(self) -> None:
        self._words: list[WordTime] = []

    def add(self, chunk: AudioChunk) -> None:
        self._words += chunk.words

    def take(self) -> list[dict[str, Any]]:
        """Return what has come since the last call, as clients see it."""
        taken, self._words = self._words, []
        return [
            {
                "word": each.word,
                "start_ms": round(each.start_s * 1000),
                "end_ms": round(each.end_s * 1000),
                "offset": each.offset,
            }
            for each in taken
        ]

    def headers(self) -> dict[str, str]:
        """Return all words in a header, or how many they are if they are too many for one."""
        words = self.take()
        header = json.dumps(words, separators=(",", ":"))
        if len(header) > MAX_HEADER_BYTES:
            return {OMITTED_HEADER: str(len(words))}
        return {HEADER: header}
