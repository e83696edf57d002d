"""Text in the letters and marks that a model knows which was taught plain English alone."""

import unicodedata
from functools import lru_cache
from string import ascii_letters

from antiphon.text.number_words import spelled

_KNOWN = frozenset(f"{ascii_letters} \"',-.:;?!")
_CLOSING = frozenset(",.:;?!")
_KNOWN_AS = {
    **dict.fromkeys("\u2018\u2019\u02bc\u201b", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013", "-"),
    **dict.fromkeys("\u2014\u2015", ", "),
    **{"\u2026": "...", "\u00df": "ss", "\u00e6": "ae", "\u00c6": "Ae", "\u0153": "oe"},
    **{"\u00f8": "o", "\u00d8": "O", "\u0142": "l", "\u0141": "L", "\u0111": "d", "\u0131": "i"},
}


class PlainWords:
    """Makes a text plain that arrives in parts: a letter first, a mark last.

    Spaces wait for what follows; none precede a mark that ends something.
    """

    def __init__(self) -> None:
        self._last = self._space = ""

    def push(self, part: str) -> str:
        """Return a part in plain letters and marks, possibly nothing."""
        plain: list[str] = []
        for character in "".join(map(_plain, part)):
            if character == " ":
                self._space = character
            elif self._last or character.isalpha():
                space = self._space if self._last and character not in _CLOSING else ""
                plain += (space, character)
                self._last, self._space = character, ""
        return "".join(plain)

    def end(self) -> str:
        """Return what ends the text: a model that was taught sentences goes on without a mark."""
        return "." if self._last.isalpha() else ""


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    """Return what a character becomes: a space for what cannot be read."""
    if character in _KNOWN:
        return character
    if character in _KNOWN_AS:
        return _KNOWN_AS[character]
    if character.isdecimal():
        return f" {spelled(character)} "
    parts = unicodedata.normalize("NFKD", character)
    letters = "".join(each for each in parts if each in _KNOWN)
    is_mark = unicodedata.category(character)[0] == "M" or unicodedata.category(character) == "Cf"
    return letters or ("" if is_mark else " ")
