"""Text in the letters and marks that a model knows which was taught plain English alone."""

import re
import unicodedata
from functools import lru_cache
from string import ascii_letters

from antiphon.text.number_words import spelled

_KNOWN = frozenset(f"{ascii_letters} \n\"',-.:;?!")
_CLOSING, _PAUSES, _STRESSED = frozenset(",.:;?!"), frozenset(",:;-"), frozenset("?!")
_MARKS, _ENDS, _INSIDE = _CLOSING | _PAUSES, frozenset(".?!"), frozenset("'-")
_MIN_WORDS = 3  # of a sentence that ends with its own mark, if there is more text
_WORDS = ("L", "N", "Sc", "Sm", "So")  # categories of what counts as left out
_JOINED = (*_WORDS, "M", "Cf", "Sk")  # and of what may follow it
_MAX_RUN, _MAX_ITEM_DIGITS = 50, 3
_KNOWN_AS = {
    **dict.fromkeys("\u2018\u2019\u02bc\u201b", "'"),
    **dict.fromkeys("\u201c\u201d\u201e\u00ab\u00bb", '"'),
    **dict.fromkeys("\u2010\u2011\u2012\u2013", "-"),
    **dict.fromkeys("\u2014\u2015", ", "),
    **{"\u2026": "...", "\u00df": "ss", "\u00fe": "th", "\u00de": "Th", "\u0131": "i"},
}
_LETTERS = dict(
    A="eigh", B="bee", C="see", D="dee", E="ee", F="eff", G="gee", H="aitch", J="jay", K="kay",
    L="el", M="em", N="en", O="oh", P="pee", Q="cue", R="are", S="ess", T="tea", U="you", V="vee",
    W="double you", X="ex", Y="why", Z="zee",
)  # fmt: skip
_LETTER = re.compile(r"(?<!')\b([AB-HJ-Zb-hj-z])(s?)\b(?!'(?!s\b))")
_LATIN = re.compile(r"LATIN (SMALL|CAPITAL) (?:LETTER|LIGATURE) ([A-Z]{1,2})(?: WITH .+)?")


def with_letter_names(words: str) -> str:
    """Return words whose single letters are written as they are spoken; an "I" stays."""
    return _LETTER.sub(lambda found: f"{_LETTERS[found[1].upper()]}{found[2]}", words)


class PlainWords:
    """Makes a text plain that arrives in parts: a letter or a quote first, a mark last.

    A space is written with the letter after it, and none before a mark that closes. A line gets a
    mark if a sentence may begin after it. A sentence of one or two words is joined with the next by
    a comma: such models were taught longer ones.

    Attributes:
        unspoken: words, signs and emoji that were left out, in order.
    """

    def __init__(self) -> None:
        self.unspoken: list[str] = []
        self._is_run = False  # the last of `unspoken` may go on
        self._last = self._space = self._mark = ""
        self._num_words = 0  # of the sentence

    def push(self, part: str, sent: str) -> str:
        """Return a part in plain letters and marks, possibly nothing.

        Args:
            sent: the characters of it that count if they are left out.
        """
        plain: list[str] = []
        for character in sent:
            self._note(character, is_left_out=not _plain(character).strip())
        for character in "".join(map(_plain, part)):
            if character.isspace():
                self._space += character if self._space.count(character) < 2 else ""
            elif character == '"' and not self._last:
                self._mark = character
            elif self._is_kept(character):
                if character in _ENDS and 0 < self._num_words < _MIN_WORDS:
                    self._mark += character
                else:
                    plain += (self._before(character), character)
                self._last, self._space = character, ""
        return "".join(plain)

    def _is_kept(self, character: str) -> bool:
        """Return whether a character is one after what precedes it: marks in a row are one."""
        if not self._last:
            return character.isalpha()
        if character in _PAUSES:
            return self._last not in _MARKS and not (character == "-" and self._space)
        return not (character in _STRESSED and self._last in _STRESSED)

    def _before(self, character: str) -> str:
        """Return what separates a character from the last one: a mark, if a sentence may begin."""
        mark, self._mark = self._mark, ""
        if not self._last:
            self._num_words = 1
            return mark
        space = " " if self._space else ""
        is_letter, num_words = character.isalpha(), self._num_words
        if mark or character in _ENDS:
            self._num_words = 0
        if character in _CLOSING:
            space = ""
        elif (character.isupper() or self._space.count("\n") > 1) and "\n" in self._space:
            mark = mark or ("." if self._last.isalpha() else "")
            self._num_words = 0 if mark else num_words
        if is_letter and self._last not in _INSIDE and (space or not self._last.isalpha()):
            self._num_words += 1
        if mark and is_letter:
            return ", " if num_words < _MIN_WORDS else f"{mark} "
        is_joined = self._last in _CLOSING and is_letter
        return f"{mark}{space or ' ' * is_joined}"

    def begin_item(self, mark: str) -> None:
        """Note what may be the mark of an item: at the start of a line, it ends the one before."""
        if "\n" in self._space and (not mark.isalnum() or len(mark) < _MAX_ITEM_DIGITS):
            self._space = "\n\n"

    def _note(self, sent: str, *, is_left_out: bool) -> None:
        """Add a character to `unspoken` if it counts; joiners go with what they follow."""
        category = unicodedata.category(sent) if is_left_out else ""
        if self._is_run and category.startswith(_JOINED):
            if len(self.unspoken[-1]) < _MAX_RUN:
                self.unspoken[-1] += sent
        else:
            self._is_run = category.startswith(_WORDS)
            self.unspoken += sent if self._is_run else ()

    def end(self) -> str:
        """Return what ends the text: a model that was taught sentences goes on without a mark."""
        return ("." if self._last.isalpha() else self._mark) if self._last else ""


@lru_cache(maxsize=4096)
def _plain(character: str) -> str:
    """Return what a character becomes: a space for what cannot be read."""
    if character in _KNOWN:
        return character
    if character in _KNOWN_AS:
        return _KNOWN_AS[character]
    if character.isdecimal():
        return f" {spelled(character)} "
    if named := _LATIN.fullmatch(unicodedata.name(character, "")):
        return named[2].capitalize() if named[1] == "CAPITAL" else named[2].lower()
    parts = unicodedata.normalize("NFKD", character)
    letters = "".join(each for each in parts if each in _KNOWN)
    is_mark = unicodedata.category(character)[0] == "M" or unicodedata.category(character) == "Cf"
    return letters or ("" if is_mark else " ")
