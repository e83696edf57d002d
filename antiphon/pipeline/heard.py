"""Which part of an answer a listener has heard, who stopped listening after some seconds."""

import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass

_OPENING = re.compile(r"(?:^|\s)[*_`~#\[(]*$|\s+$")
"""Marks at the end that belong to the word after it, and spaces."""

CHARACTERS_PER_S = 15.0
"""Of speech of which nothing is known yet; of what follows a segment, its own rate is taken."""


@dataclass(frozen=True, slots=True)
class _Place:
    """A place in the audio, and how much of the text is said there."""

    time_s: float
    num_said: int


class HeardTranscript:
    """A transcript as it is written, and the audio as it is made.

    Of the audio it is known where segments end; between those, as many characters are taken to be
    said in each second.

    Attributes:
        text: the transcript.
        duration_s: of the audio.
    """

    def __init__(self) -> None:
        self.text = ""
        self.duration_s = 0.0
        self._said = ""
        self._is_complete = False
        self._places = [_Place(0.0, 0)]
        self._num_said: list[int] = []
        self._num_written: list[int] = []

    def write(self, text: str, said: str) -> None:
        """Add to the transcript, and to what is said of it."""
        self.text += text
        self._said += said
        self._num_said.append(len(self._said))
        self._num_written.append(len(self.text))

    def hear(self, duration_s: float) -> None:
        """Add to the audio."""
        self.duration_s += duration_s

    def end_segment(self, said: str) -> None:
        """Note that ``said`` has been said, up to the end of the audio so far."""
        begin = self._places[-1].num_said
        found = self._said.find(said.strip(), begin)
        end = min(max(found, begin) + len(said), len(self._said))
        self._places.append(_Place(self.duration_s, end))

    def complete(self) -> None:
        """Note that all has been said."""
        self._is_complete = True

    def until(self, heard_s: float) -> str:
        """Return the words of the transcript that are said before a place in the audio."""
        if self._is_complete and heard_s >= self.duration_s:
            return self.text
        end = self._written_before(self._said_before(heard_s))
        while 0 < end < len(self.text) and _is_within_word(self.text, end):
            end -= 1
        return _OPENING.sub("", self.text[:end])

    def _said_before(self, heard_s: float) -> int:
        after = bisect_left(self._places, heard_s, key=lambda place: place.time_s)
        if after == 0:
            return 0
        begin = self._places[after - 1]
        if after < len(self._places):
            end = self._places[after]
            share = (heard_s - begin.time_s) / (end.time_s - begin.time_s)
            return begin.num_said + int(share * (end.num_said - begin.num_said))
        rate = begin.num_said / begin.time_s if begin.time_s else CHARACTERS_PER_S
        if self._is_complete and self.duration_s > begin.time_s:
            rate = (len(self._said) - begin.num_said) / (self.duration_s - begin.time_s)
        return min(begin.num_said + int(rate * (heard_s - begin.time_s)), len(self._said))

    def _written_before(self, num_said: int) -> int:
        """Return how long the transcript is of which so many characters are said."""
        number = bisect_left(self._num_said, num_said)
        if number == len(self._num_said):
            return len(self.text)
        if self._num_said[number] == num_said:
            return self._num_written[number]
        before = number - 1
        said, written = (self._num_said[before], self._num_written[before]) if number else (0, 0)
        return min(written + num_said - said, self._num_written[number])


def _is_within_word(text: str, at: int) -> bool:
    """Return whether a place has letters on both sides, in a script that has spaces."""
    return all(letter.isalnum() and _has_spaces(letter) for letter in text[at - 1 : at + 1])


def _has_spaces(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) not in ("W", "F")
