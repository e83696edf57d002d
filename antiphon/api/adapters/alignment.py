"""When each character of a text is spoken, derived from when its words are.

A word's time is spread evenly over its characters, and what is between two words gets the time
between them: spaces, and text that is left out. Characters are code points.
"""

from dataclasses import dataclass
from typing import Any

from antiphon.contracts.types import AudioChunk


@dataclass(frozen=True, slots=True)
class TimedText:
    """A piece of a text, and when its characters are spoken.

    Attributes:
        characters: Characters of the text; at least one.
        starts_s: Start times from the beginning of the audio; they never decrease.
        ends_s: the same.
        origin_s: End time of the piece before.
    """

    characters: str
    starts_s: tuple[float, ...]
    ends_s: tuple[float, ...]
    origin_s: float

    def in_seconds(self) -> dict[str, Any]:
        """Return it as HTTP responses have it."""
        return {
            "characters": list(self.characters),
            "character_start_times_seconds": [round(each, 3) for each in self.starts_s],
            "character_end_times_seconds": [round(each, 3) for each in self.ends_s],
        }

    def since_the_one_before(self) -> dict[str, Any]:
        """Return it as WebSocket messages have it: in ms from the end of the piece before."""
        origin_ms = round(self.origin_s * 1000)
        starts_ms = [round(each * 1000) - origin_ms for each in self.starts_s]
        ends_ms = [round(each * 1000) - origin_ms for each in self.ends_s]
        return {
            "chars": list(self.characters),
            "charStartTimesMs": starts_ms,
            "charDurationsMs": [end - start for start, end in zip(starts_ms, ends_ms, strict=True)],
        }


@dataclass(frozen=True, slots=True)
class Alignment:
    """A piece of a text as it was written, and as it was read; either may be ``None``."""

    written: TimedText | None
    read: TimedText | None


class _Clock:
    """Spreads time over characters, from left to right."""

    def __init__(self) -> None:
        self.end_s = 0.0
        self._taken_to_s = 0.0
        self._characters: list[str] = []
        self._starts_s: list[float] = []
        self._ends_s: list[float] = []

    def write(self, text: str, start_s: float, end_s: float) -> None:
        """Add characters that are spoken from ``start_s`` to ``end_s``, or as late as they can."""
        start_s = max(start_s, self.end_s)
        step_s = max(0.0, end_s - start_s) / max(1, len(text))
        for place, character in enumerate(text):
            self._characters.append(character)
            self._starts_s.append(start_s + place * step_s)
            self._ends_s.append(start_s + (place + 1) * step_s)
        self.end_s = self._ends_s[-1] if text else self.end_s

    def take(self) -> TimedText | None:
        """Return what was written since the last call."""
        if not self._characters:
            return None
        characters = "".join(self._characters)
        starts_s, ends_s = tuple(self._starts_s), tuple(self._ends_s)
        taken = TimedText(characters, starts_s, ends_s, self._taken_to_s)
        self._characters, self._starts_s, self._ends_s = [], [], []
        self._taken_to_s = self.end_s
        return taken


class SpokenText:
    """A text that may still be growing, and how far it has been spoken."""

    def __init__(self, text: str = "") -> None:
        self._text = text
        self._place = 0
        self._written, self._read = _Clock(), _Clock()
        self._duration_s = 0.0

    def add(self, text: str) -> None:
        """Let the text go on."""
        self._text += text

    def add_chunk(self, chunk: AudioChunk) -> None:
        """Note a chunk's words and how long it is."""
        for word in chunk.words:
            if self._read.end_s:
                self._read.write(" ", self._read.end_s, word.start_s)
            self._read.write(word.read, word.start_s, word.end_s)
            self._written.write(self._text[self._place : word.offset], 0.0, word.start_s)
            self._written.write(word.word, word.start_s, word.end_s)
            self._place = word.stop
        self._duration_s += chunk.duration_s

    def take(self) -> Alignment | None:
        """Return what has been spoken since the last call, as far as words have times."""
        written, read = self._written.take(), self._read.take()
        return None if written is None and read is None else Alignment(written, read)

    def finish(self) -> Alignment | None:
        """Return the rest, which lasts as long as the audio."""
        if self._read.end_s:  # else the model gave no times
            self._written.write(self._text[self._place :], 0.0, self._duration_s)
            self._place = len(self._text)
        return self.take()
