"""Tokens of English text with character offsets: words, numbers, spaces and single signs."""

import html
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Container
from dataclasses import dataclass
from functools import lru_cache

HAN = "\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U000323af"
"""Ranges of Chinese characters, each of which is a token."""
_LETTER = rf"[^\W\d_\u00b2\u00b3\u00b9\u00bc-\u00be\u2070-\u2089\u2150-\u2189{HAN}]"
_MAX = 64
"""Characters of a letter or number token; longer runs are several tokens."""
_TOKEN = re.compile(
    rf"[{HAN}]|{_LETTER}{{1,{_MAX}}}(?:'{_LETTER}{{1,{_MAX}}}){{0,4}}|[0-9]{{1,{_MAX}}}"
    rf"|[^\S\n]{{1,{_MAX}}}|\n\s{{0,{_MAX}}}|.",
    re.DOTALL,
)
_ENTITY = re.compile(r"&(?:amp;){0,3}(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z]{2,8});")
_SAME_AS = {
    **dict.fromkeys("\u2018\u2019\u02bc\u201b", "'"),
    **dict.fromkeys("\u2010\u2011", "-"),
    **dict.fromkeys("\u00ab\u201e", "\u201c"),
    **dict.fromkeys("\u2028\u2029", "\n"),
    **dict.fromkeys("\u202f\u2009\u00a0", "\u00a0"),
    **{"\u00bb": "\u201d", "\u2012": "\u2013", "\u2015": "\u2014", "\u03bc": "\u00b5"},
    **{"\u00ba": "\u00b0", "\u2044": "/", "\u200b": " ", "\u223c": "~"},
    **{"\u2103": "\u00b0C", "\u2109": "\u00b0F", "\u2116": "No."},
}
_CASED = ("Lu", "Ll", "Lt")
_KNOWN_SCRIPTS = ("LATIN", "GREEK", "MICRO", "KELVIN")
_KEPT_FORMS = ("<super>", "<sub>", "<fraction>")
_OPENING = frozenset("# \n([{\"'\u201c*_/-\u2013\u2014~`|<>=+:,;$\u20ac\u00a3\u00a5\u20b9")
_NUM_BEFORE, _MAX_AROUND = 4, 12
WORD = "w"
DIGITS = "d"
SPACE = " "
LINE = "\n"


@dataclass(frozen=True, slots=True)
class SpokenPiece:
    """Run of characters and its reading; the pieces of a text cover all of it, in order.

    Attributes:
        start: offset of its first character.
        stop: offset after its last character.
        words: spoken words; the text itself if nothing is written out.
        is_changed: whether a rule has written it out.
    """

    start: int
    stop: int
    words: str
    is_changed: bool = False
    ends_sentence: bool = False

    def stripped(self, text: str) -> tuple[int, int]:
        """Return the offsets of the piece in its text, without the spaces at its ends."""
        part = text[self.start : self.stop]
        return self.stop - len(part.lstrip()), self.start + len(part.rstrip())


class TokenizedText:
    """Text in tokens, by index; outside of the text, tokens are empty.

    ``shape`` has one character per token: ``w`` for a word, ``d`` for digits, a space, a line
    break, or the sign itself. ``reach`` is the last token that was read, which may be one past the
    end: a reading before the last token does not depend on further text.
    """

    def __init__(self, text: str, *, british: bool = False, spells: bool = False) -> None:
        plain, self._origins = _plain_text(text)
        plain = plain or " " * bool(text)  # all of it is dropped
        # A comprehension, since a list's own loop does not release the interpreter's lock.
        found = [match for match in _TOKEN.finditer(plain)]
        self.british, self.spells = british, spells
        self._texts = [each[0] for each in found]
        # What is dropped before the first token belongs to it.
        self._starts = [0, *(self._origins[each.start()] for each in found[1:])][: len(found)]
        self._starts.append(len(text))
        self.shape = "".join(map(_shape, self._texts))
        self.reach = -1

    def __len__(self) -> int:
        return len(self._texts)

    def text(self, place: int) -> str:
        self._look(place)
        return self._texts[place] if 0 <= place < len(self._texts) else ""

    def kind(self, place: int) -> str:
        """Return a token's character of the shape."""
        if place > self.reach:
            self._look(place)
        return self.shape[place] if 0 <= place < len(self.shape) else ""

    def joined(self, start: int, stop: int) -> str:
        self._look(stop - 1)
        return "".join(self._texts[max(0, start) : stop])

    def has(self, place: int, shape: str) -> bool:
        found = place >= 0 and self.shape.startswith(shape, place)
        rest = self.shape[place : place + len(shape)]
        if found or shape.startswith(rest):
            self._look(place + len(rest) - (1 if found else 0))
        return found

    def offset(self, place: int) -> int:
        return self._starts[min(place, len(self._texts))]

    def place_of(self, offset: int) -> int:
        """Return the token that starts at or after an offset of the text."""
        return bisect_left(self._starts, offset, hi=len(self._texts))

    def before(self, place: int) -> str:
        """Return the word or the number before a token, in lower case, skipping spaces."""
        place -= 1
        if self.kind(place) == SPACE:
            place -= 1
        return self.text(place).lower() if self.kind(place) in (WORD, DIGITS) else ""

    def after(self, place: int) -> str:
        """Return the word or the number that starts at a token, skipping one space."""
        place += self.kind(place) == SPACE
        return self.text(place) if self.kind(place) in (WORD, DIGITS) else ""

    def around(
        self, start: int, stop: int, skipped: Container[str] = (), num_after: int = 1
    ) -> tuple[list[str], list[str]]:
        """Return up to four words before a token, the nearest first, and those from another on.

        Args:
            skipped: signs and words, in lower case, that are passed over; other signs are words.
            num_after: number of the words behind.
        """
        before, after = list[str](), list[str]()
        place = start - 1
        while len(before) < _NUM_BEFORE and start - place < _MAX_AROUND:
            if self.kind(place) in ("", LINE):
                break
            if self.kind(place) != SPACE and self.text(place).lower() not in skipped:
                before.append(self.text(place))
            place -= 1
        while len(after) < num_after and self.kind(stop) not in ("", LINE):
            if self.kind(stop) != SPACE and self.kind(stop) not in skipped:
                after.append(self.text(stop))
            stop += 1
        return before, after

    def is_open(self, place: int) -> bool:
        """Return whether a reading may start here: no letter or sign of a number precedes it."""
        return place == 0 or self.kind(place - 1) in _OPENING

    def is_closed(self, place: int) -> bool:
        """Return whether a reading may end before this token: no letter or digit adjoins it."""
        kind = self.kind(place)
        if kind in (WORD, DIGITS, "_", "@", "$"):
            return False
        return kind not in (".", ",", "-", "/", ":", "'") or self.kind(place + 1) not in (
            WORD,
            DIGITS,
        )

    def ends_text(self, place: int) -> bool:
        """Return whether only closing marks, spaces or a line break follow."""
        while self.kind(place) and self.kind(place) in ")]\u201d\"'*_ ":
            place += 1
        return self.kind(place) in ("", LINE)

    def _look(self, place: int) -> None:
        if place > self.reach:
            self.reach = min(place, len(self._texts))


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
    """Return a text in plain letters and digits, and the origin of each of its characters."""
    if text.isascii() and "&" not in text:
        return text.replace("\r", "\n"), [*range(len(text) + 1)]
    plain: list[str] = []
    origins: list[int] = []
    place = 0
    while place < len(text):
        entity = _ENTITY.match(text, place) if text[place] == "&" else None
        stop = place + 1 if entity is None else entity.end()
        read = text[place:stop]
        while entity is not None and read != (read := html.unescape(read)):
            pass
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
    """Join a letter and the mark after it if one character stands for both."""
    composed = unicodedata.normalize("NFC", "".join(plain[-2:]))
    if len(composed) == 1 and len(plain) > 1:
        plain[-2:] = [composed]
        origins.pop()


@lru_cache(maxsize=4096)
def plain_character(character: str) -> str:
    """Return the plain form of a character.

    A styled letter (full width, bold, a ligature) becomes that letter. Letters of scripts with
    capitals other than Latin and Greek are left out: the dictionary would read some of them as
    names of letters. Format characters (byte order mark, soft hyphens) are dropped.
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
