"""Offsets of a text as it was given, from those of the text that was made of it."""

from array import array
from bisect import bisect_right

_COPIED = -1


class OffsetMap:
    """Origins of a text's runs: each was copied from the given text, or stands for a run of it.

    Attributes:
        num_made: characters of the text so far.
    """

    def __init__(self) -> None:
        self.num_made = self._num_given = 0
        self._starts, self._origins = array("q"), array("q")
        self._lengths = array("q")  # of what a run stands for

    def copy(self, num_characters: int) -> None:
        """Add a run that is the next one of the given text."""
        if num_characters and not self._goes_on():
            self._begin(_COPIED)
        self._advance(num_characters, num_characters)

    def exchange(self, num_given: int, num_made: int) -> None:
        """Add a run that stands for the next one of the given text; either may be empty."""
        if num_made:
            self._begin(num_given)
        self._advance(num_given, num_made)

    def skip(self, num_characters: int) -> None:
        """Leave out the next run of the given text."""
        self._advance(num_characters, 0)

    def origin(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first offset, and the one after the last, of what a range was made of."""
        return self._origin(start)[0], self._origin(max(start, stop - 1))[1]

    def _origin(self, place: int) -> tuple[int, int]:
        run = bisect_right(self._starts, place) - 1
        origin, length = self._origins[run], self._lengths[run]
        if length == _COPIED:
            origin, length = origin + place - self._starts[run], 1
        return origin, origin + length

    def _goes_on(self) -> bool:
        """Return whether a copied run follows the last one without a gap."""
        if not self._lengths or self._lengths[-1] != _COPIED:
            return False
        return self._num_given - self._origins[-1] == self.num_made - self._starts[-1]

    def _begin(self, length: int) -> None:
        self._starts.append(self.num_made)
        self._origins.append(self._num_given)
        self._lengths.append(length)

    def _advance(self, num_given: int, num_made: int) -> None:
        self._num_given += num_given
        self.num_made += num_made
