"""Tokens of English text with character offsets: words, numbers, spaces and single signs."""

import html
import re
import unicodedata
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

_LETTER = r"[^\W\d_\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u2189]"
_TOKEN = re.compile(rf"{_LETTER}+(?:'{_LETTER}+)*|[0-9]+|[^\S\n]+|\n\s*|.", re.DOTALL)
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
_SAME_AS = {
    **dict.fromkeys("\u2018\u2019\u02bc\u201b", "'"),
    **dict.fromkeys("\u2010\u2011", "-"),
    **dict.fromkeys("\u00ab\u201e", "\u201c"),
    "\u00bb": "\u201d",
    "\u2012": "\u2013",
    "\u2015": "\u2014",
    "\u03bc": "\u00b5",
    "\u00ba": "\u00b0",
    "\u2044": "/",
    "\u2028": "\n",
    "\u2029": "\n",
    "\u200b": " ",
    "\u202f": "\u00a0",
    "\u2009": "\u00a0",
    "\u00a0": "\u00a0",
    "\u223c": "~",
    "\u2103": "\u00b0C",
    "\u2109": "\u00b0F",
    "\u2116": "No.",
}
_CASED = ("Lu", "Ll", "Lt")
_KNOWN_SCRIPTS = ("LATIN", "GREEK", "MICRO", "KELVIN")
_KEPT_FORMS = ("<super>", "<sub>", "<fraction>")
_OPENING = frozenset(" \n([{\"'\u201c*_/-\u2013\u2014~`|<>=+:,;$\u20ac\u00a3\u00a5\u20b9")
WORD = "w"
DIGITS = "d"
SPACE = " "
LINE = "\n"


@dataclass(frozen=True, slots=True)
class SpokenPiece:
    """A stretch of a text and its reading; the pieces of a text cover all of it, in order.

    Attributes:
        start: offset of its first character.
        stop: offset behind its last character.
        words: what is spoken instead; the text itself where nothing is written out.
        is_changed: whether a rule has written it out.
        ends_sentence: whether a sentence ends behind it.
    """

    start: int
    stop: int
    words: str
    is_changed: bool = False
    ends_sentence: bool = False


class TokenizedText:
    """A text in tokens, by number; outside of the text they are empty.

    ``shape`` has one character for each token: ``w`` for a word, ``d`` for digits, a space, a line
    break, or the sign itself. ``reach`` is the last token that was looked at, which may be the one
    behind the end: a reading is certain, whatever text follows, if it is before the last token.
    """

    def __init__(self, text: str, *, british: bool = False) -> None:
        plain, self._origins = _plain_text(text)
        # A comprehension, since the interpreter's lock is not freed within a list's own loop.
        found = [match for match in _TOKEN.finditer(plain)]
        self.british = british
        self._texts = [each[0] for each in found]
        self._starts = [self._origins[each.start()] for each in found]
        self._starts.append(len(text))
        self.shape = "".join(map(_shape, self._texts))
        self.reach = -1

    def __len__(self) -> int:
        return len(self._texts)

    def text(self, place: int) -> str:
        """Return a token."""
        self._look(place)
        return self._texts[place] if 0 <= place < len(self._texts) else ""

    def kind(self, place: int) -> str:
        """Return a token's character of the shape."""
        self._look(place)
        return self.shape[place] if 0 <= place < len(self._texts) else ""

    def joined(self, start: int, stop: int) -> str:
        """Return the tokens from ``start`` to before ``stop``."""
        self._look(stop - 1)
        return "".join(self._texts[max(0, start) : stop])

    def has(self, place: int, shape: str) -> bool:
        """Whether the tokens from ``place`` have a shape."""
        found = self.shape.startswith(shape, place)
        rest = self.shape[place : place + len(shape)]
        if found or shape.startswith(rest):
            self._look(place + len(rest) - (1 if found else 0))
        return found

    def offset(self, place: int) -> int:
        """Return where a token begins in the text."""
        return self._starts[min(place, len(self._texts))]

    def place_of(self, offset: int) -> int:
        """Return the token that begins at an offset of the text, or the next one."""
        return bisect_left(self._starts, offset, hi=len(self._texts))

    def before(self, place: int) -> str:
        """Return the word or the number before a token, in lower case, spaces skipped."""
        place -= 1
        if self.kind(place) == SPACE:
            place -= 1
        return self.text(place).lower() if self.kind(place) in (WORD, DIGITS) else ""

    def after(self, place: int) -> str:
        """Return the word or the number that begins at a token, one space skipped."""
        place += self.kind(place) == SPACE
        return self.text(place) if self.kind(place) in (WORD, DIGITS) else ""

    def is_open(self, place: int) -> bool:
        """Whether something may begin here: no letter and no sign of a number stands before it."""
        return place == 0 or self.kind(place - 1) in _OPENING

    def is_closed(self, place: int) -> bool:
        """Whether something may end before this token: no letter and no digit is glued to it."""
        kind = self.kind(place)
        if kind in (WORD, DIGITS, "_", "@", "$"):
            return False
        return kind not in (".", ",", "-", "/", ":", "'") or self.kind(place + 1) not in (
            WORD,
            DIGITS,
        )

    def ends_text(self, place: int) -> bool:
        """Whether nothing follows but closing marks, spaces or a line break."""
        while self.kind(place) and self.kind(place) in ")]\u201d\"'*_ ":
            place += 1
        return self.kind(place) in ("", LINE)

    def _look(self, place: int) -> None:
        self.reach = max(self.reach, min(place, len(self._texts)))


def _shape(token: str) -> str:
    first = token[0]
    if first.isalpha():
        return WORD
    if "0" <= first <= "9":
        return DIGITS
    if first == "\n":
        return LINE
    return SPACE if first.isspace() else first


def _plain_text(text: str) -> tuple[str, list[int]]:
    """Return a text in plain letters and digits, and where each of its characters comes from."""
    if text.isascii() and "&" not in text:
        return text.replace("\r", "\n"), [*range(len(text) + 1)]
    plain: list[str] = []
    origins: list[int] = []
    place = 0
    while place < len(text):
        entity = _ENTITY.match(text, place) if text[place] == "&" else None
        stop = place + 1 if entity is None else entity.end()
        read = html.unescape(text[place:stop])
        if entity is None or read == text[place:stop] or read in "\r\n":
            read, stop = text[place], place + 1
        for character in read:
            for written in plain_character(character):
                plain.append(written)
                origins.append(place)
            if plain and unicodedata.category(character) == "Mn" and not character.isascii():
                _compose(plain, origins)
        place = stop
    return "".join(plain), [*origins, len(text)]


def _compose(plain: list[str], origins: list[int]) -> None:
    """Join a letter and the mark behind it where one character stands for both."""
    composed = unicodedata.normalize("NFC", "".join(plain[-2:]))
    if len(composed) == 1 and len(plain) > 1:
        plain[-2:] = [composed]
        origins.pop()


@lru_cache(maxsize=4096)
def plain_character(character: str) -> str:
    """Return what is read for a character that is known in another form only.

    A letter in a style of its own (full width, bold, a ligature) is that letter. Letters of other
    scripts with capitals than Latin and Greek are left out: the dictionary would take some of them
    for names of letters. Marks of format (byte order, soft hyphens) are no part of a word.
    """
    if character in _SAME_AS:
        return _SAME_AS[character]
    if character.isascii():
        return "\n" if character == "\r" else character
    category = unicodedata.category(character)
    if category == "Cf":
        return ""
    if category == "Nd":
        return str(unicodedata.decimal(character))
    if category == "Zs":
        return " "
    form = unicodedata.decomposition(character)
    plain = unicodedata.normalize("NFKC", character)
    is_in_another_form = form.startswith("<wide>") or category[0] in "LN"
    if plain.isascii() and is_in_another_form and not form.startswith(_KEPT_FORMS):
        return plain
    if category in _CASED and not unicodedata.name(plain[0], "").startswith(_KNOWN_SCRIPTS):
        return " "
    return character
