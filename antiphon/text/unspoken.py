"""Detection of characters that a reading leaves out: other scripts, some signs, emoji.

Letters are judged on their own, digits and signs with their neighbours: ``$5`` is read, ``$`` alone
is not. Punctuation is never spoken, and never reported.
"""

import re
import unicodedata
from collections.abc import Callable
from enum import Enum, auto

from antiphon.contracts.prompt import TextCheck
from antiphon.text.base import UNSPOKEN_PHONEMES

_SURELY_SPOKEN = re.compile(r"[A-Za-z0-9]")
_JOINERS = ("M", "Cf", "Sk")  # marks of a letter, colours and joiners of emoji
_MAX_REMEMBERED = 20_000
_NUM_NEIGHBOURS = 2  # a space may separate a sign and its number
_MAX_NEW = 200  # checks per text, of 4 ms each; further signs are checked alone
_SIGNS_THAT_MATTER = "$€£¥₹<>=+-"
_WORD = "so"


class _Kind(Enum):
    SPOKEN = auto()
    UNSPOKEN = auto()
    JOINER = auto()
    SILENT = auto()


class UnspokenFinder:
    """Finder of characters that one accent cannot read; may be called from any thread."""

    def __init__(self, pronounce: Callable[[str], str], own_script: str = "") -> None:
        """Judge characters by ``pronounce``.

        Args:
            pronounce: function that returns the phonemes of a text.
            own_script: first word of the Unicode names of characters that are judged one by one,
                since the reader knows many of them, but not all.
        """
        self._pronounce = pronounce
        self._own_script = own_script
        self._kinds: dict[str, _Kind] = {}

    def check(self, text: str) -> TextCheck:
        """Return the runs of characters that are left out, and whether anything is read."""
        found: list[str] = []
        run, is_spoken = "", False
        limit = len(self._kinds) + _MAX_NEW
        for place, character in enumerate(text):
            is_cheap = len(self._kinds) >= limit
            kind = self._kind(text, place, 0 if is_cheap else _NUM_NEIGHBOURS)
            is_spoken = is_spoken or kind is _Kind.SPOKEN
            if kind is _Kind.UNSPOKEN or (run and kind is _Kind.JOINER):
                run += character
            elif run:
                found.append(run)
                run = ""
        return TextCheck((*found, *([run] if run else ())), is_spoken)

    def _kind(self, text: str, place: int, num_neighbours: int) -> _Kind:
        character = text[place]
        if _SURELY_SPOKEN.match(character):
            return _Kind.SPOKEN
        category = unicodedata.category(character)
        if category.startswith(_JOINERS):
            return _Kind.JOINER
        if category[0] not in "LNS":
            return _Kind.SILENT
        if category == "Lo":  # a foreign script without capital letters is read or not as a whole
            script = unicodedata.name(character, "").partition(" ")[0]
            key = character if script == self._own_script else script
            return self._judged(key, "", character, "")
        if category[0] == "L":
            return self._judged(character, "", character, "")
        start = max(place - num_neighbours, 0)
        before = "".join(map(_like, text[start:place]))
        after = "".join(map(_like, text[place + 1 : place + 1 + num_neighbours]))
        return self._judged(f"{before}{character}{after}", before, character, after)

    def _judged(self, key: str, before: str, character: str, after: str) -> _Kind:
        """Return whether a character adds any sound to the reading; the result is cached."""
        kind = self._kinds.get(key)
        if kind is None:
            without = self._num_sounds(before, " ", after)
            is_spoken = self._num_sounds(before, character, after) > without
            kind = _Kind.SPOKEN if is_spoken else _Kind.UNSPOKEN
            if len(self._kinds) >= _MAX_REMEMBERED:
                self._kinds.clear()
            self._kinds[key] = kind
        return kind

    def _num_sounds(self, before: str, character: str, after: str) -> int:
        """Count the phonemes of a character and its neighbours, within a sentence."""
        read = self._pronounce(f"{_WORD} {before}{character}{after} {_WORD}")
        return sum(phoneme not in UNSPOKEN_PHONEMES for phoneme in read)


def _like(neighbour: str) -> str:
    """Return a representative of the neighbours of a sign, so that few cases differ."""
    if neighbour.isalpha():
        return "b"
    if neighbour.isdigit():
        return "5"
    return neighbour if neighbour in _SIGNS_THAT_MATTER else " "
