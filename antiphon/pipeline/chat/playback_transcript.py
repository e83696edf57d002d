"""Transcript of an answer up to the moment at which playback stopped."""

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
    """A time in the audio, and the number of characters spoken by then."""

    time_s: float
    num_spoken: int


class PlaybackTranscript:
    """A transcript as it is written, and the audio as it is made.

    Of the audio it is known where segments end; between those, as many characters are taken to be
    spoken in each second.
    """

    def __init__(self) -> None:
        self.text = ""
        self.duration_s = 0.0
        self._spoken = ""
        self._is_complete = False
        self._places = [_Place(0.0, 0)]
        self._num_spoken: list[int] = []
        self._num_written: list[int] = []

    def write(self, text: str, spoken: str) -> None:
        """Add to the transcript, and to its spoken form."""
        self.text += text
        self._spoken += spoken
        self._num_spoken.append(len(self._spoken))
        self._num_written.append(len(self.text))

    def add_audio(self, duration_s: float) -> None:
        self.duration_s += duration_s

    def end_segment(self, spoken: str) -> None:
        """Note that ``spoken`` ends with the audio so far."""
        begin = self._places[-1].num_spoken
        found = self._spoken.find(spoken.strip(), begin)
        end = min(max(found, begin) + len(spoken), len(self._spoken))
        self._places.append(_Place(self.duration_s, end))

    def complete(self) -> None:
        """Note that everything has been spoken."""
        self._is_complete = True

    def until(self, played_s: float) -> str:
        """Return the words of the transcript that are spoken before a time in the audio."""
        if self._is_complete and played_s >= self.duration_s:
            return self.text
        end = self._written_before(self._said_before(played_s))
        while 0 < end < len(self.text) and _is_within_word(self.text, end):
            end -= 1
        return _OPENING.sub("", self.text[:end])

    def _said_before(self, played_s: float) -> int:
        after = bisect_left(self._places, played_s, key=lambda place: place.time_s)
        if after == 0:
            return 0
        begin = self._places[after - 1]
        if after < len(self._places):
            end = self._places[after]
            share = (played_s - begin.time_s) / (end.time_s - begin.time_s)
            return begin.num_spoken + int(share * (end.num_spoken - begin.num_spoken))
        rate = begin.num_spoken / begin.time_s if begin.time_s else CHARACTERS_PER_S
        if self._is_complete and self.duration_s > begin.time_s:
            rate = (len(self._spoken) - begin.num_spoken) / (self.duration_s - begin.time_s)
        return min(begin.num_spoken + int(rate * (played_s - begin.time_s)), len(self._spoken))

    def _written_before(self, num_spoken: int) -> int:
        """Return the length of the transcript whose spoken form has so many characters."""
        number = bisect_left(self._num_spoken, num_spoken)
        if number == len(self._num_spoken):
            return len(self.text)
        if self._num_spoken[number] == num_spoken:
            return self._num_written[number]
        before = number - 1
        spoken, written = (
            (self._num_spoken[before], self._num_written[before]) if number else (0, 0)
        )
        return min(written + num_spoken - spoken, self._num_written[number])


def _is_within_word(text: str, at: int) -> bool:
    """Return whether a place has letters on both sides, in a script that has spaces."""
    return all(letter.isalnum() and _has_spaces(letter) for letter in text[at - 1 : at + 1])


def _has_spaces(letter: str) -> bool:
    return unicodedata.east_asian_width(letter) not in ("W", "F")
