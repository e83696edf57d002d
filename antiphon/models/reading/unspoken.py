"""Finds what a text has that a reading leaves out: other scripts, some signs, emoji.

Letters are judged by themselves, digits and signs with what stands beside them: ``$5`` is read,
``$`` alone is not. Punctuation is never spoken, and never missed.
"""

import re
import unicodedata
from collections.abc import Callable
from enum import Enum, auto

from antiphon.models.base import TextCheck

_SURELY_SPOKEN = re.compile(r"[A-Za-z0-9]")
_JOINERS = ("M", "Cf", "Sk")  # marks of a letter, colours and joiners of emoji
_MAX_REMEMBERED = 20_000


class _Kind(Enum):
    SPOKEN = auto()
    UNSPOKEN = auto()
    JOINER = auto()
    SILENT = auto()


class UnspokenFinder:
    """Knows what one accent cannot read; may be called from any thread."""

    def __init__(self, pronounce: Callable[[str], str], own_script: str = "") -> None:
        """Judge by ``pronounce``.

        Args:
            pronounce: returns the phonemes of a text.
            own_script: first word of Unicode's names of characters that are judged one by one,
                since the reader knows many of them, and not all.
        """
        self._pronounce = pronounce
        self._own_script = own_script
        self._kinds: dict[str, _Kind] = {}

    def check(self, text: str) -> TextCheck:
        """Return the runs of characters that are left out, and whether anything is read."""
        if text.isascii() and text.replace(" ", "").isalnum():
            return TextCheck((), is_spoken=True)
        found: list[str] = []
        run, is_spoken = "", False
        for place, character in enumerate(text):
            kind = self._kind(text, place)
            is_spoken = is_spoken or kind is _Kind.SPOKEN
            if kind is _Kind.UNSPOKEN or (run and kind is _Kind.JOINER):
                run += character
            elif run:
                found.append(run)
                run = ""
        return TextCheck((*found, *([run] if run else ())), is_spoken)

    def _kind(self, text: str, place: int) -> _Kind:
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
        before = _like(text[place - 1 : place] if place else "")
        after = _like(text[place + 1 : place + 2])
        return self._judged(f"{before}{character}{after}", before, character, after)

    def _judged(self, key: str, before: str, character: str, after: str) -> _Kind:
        """Return whether a character adds anything to what is read, and remember it."""
        kind = self._kinds.get(key)
        if kind is None:
            without = self._pronounce(f"{before} {after}".strip())
            read = self._pronounce(f"{before}{character}{after}".strip())
            is_spoken = len(read) > len(without)
            kind = _Kind.SPOKEN if is_spoken else _Kind.UNSPOKEN
            if len(self._kinds) >= _MAX_REMEMBERED:
                self._kinds.clear()
            self._kinds[key] = kind
        return kind


def _like(neighbour: str) -> str:
    """Return what stands for all that could stand beside a sign: a digit, a letter or a space."""
    if neighbour.isalpha():
        return "a"
    return "5" if neighbour.isdigit() else " "
