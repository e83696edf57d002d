"""When words are spoken: in events beside encoded audio, or in a header."""

import json
from typing import Any

from antiphon.contracts.types import AudioChunk, WordTime

HEADER = "X-Word-Timestamps"
OMITTED_HEADER = "X-Word-Timestamps-Omitted"
MAX_HEADER_BYTES = 4096
_MAX_SKIPPED_CHARACTERS = 1000  # between two words: pauses, emoji


class WordTimestampCollector:
    """Keeps the words of a stream's chunks.

    Attributes:
        text: Text of the request, as far as it has arrived.
    """

    def __init__(self, text: str = "") -> None:
        """Begin a stream.

        Args:
            text: text of the request, where words are looked for; they come in its order.
        """
        self.text = text
        self._words: list[WordTime] = []
        self._place = 0

    def add(self, chunk: AudioChunk) -> None:
        """Keep the words of a chunk."""
        self._words += chunk.words

    def take(self) -> list[dict[str, Any]]:
        """Return what has come since the last call, as clients see it."""
        taken, self._words = self._words, []
        return [
            {
                "word": each.word,
                "start_ms": round(each.start_s * 1000),
                "end_ms": round(each.end_s * 1000),
                **self._offset(each.word),
            }
            for each in taken
        ]

    def _offset(self, word: str) -> dict[str, int]:
        """Return where a word begins in the text; empty if it was exchanged for another."""
        end = self._place + len(word) + _MAX_SKIPPED_CHARACTERS
        found = self.text.find(word, self._place, end)
        if found < 0:
            return {}
        self._place = found + len(word)
        return {"offset": found}

    def headers(self) -> dict[str, str]:
        """Return all words in a header, or how many they are if they are too many for one."""
        words = self.take()
        header = json.dumps(words, separators=(",", ":"))
        if len(header) > MAX_HEADER_BYTES:
            return {OMITTED_HEADER: str(len(words))}
        return {HEADER: header}
