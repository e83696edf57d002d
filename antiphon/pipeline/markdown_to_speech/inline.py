"""Marks within a line: emphasis, code, links, addresses, entities, pictures.

Each rule looks at a place of the text, as far as that has come. It returns how many characters it
has consumed, or `WAIT` where more text could change the result.
"""

import html
import re
import string
from collections.abc import Callable

from antiphon.config.chat import SpeakableSettings
from antiphon.pipeline.markdown_to_speech.emoji import MODIFIER, PICTURE, name_of
from antiphon.pipeline.markdown_to_speech.spoken_text import SpeechText

WAIT = 0
"""More text is needed."""

MAX_HELD = 500
"""Characters after which something that has no end is taken for text."""

_PLAIN = re.compile(r"(?:[^\W_hHwW]|(?<=[^\W_])[hHwW]|[ ,.;:'\"()?])+")
_RUN = {mark: re.compile(re.escape(mark) + "+") for mark in "`*_~#"}
_ENTITY = re.compile(r"&(?:#[0-9]{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_ENTITY_BEGIN = re.compile(r"&(?:#(?:[0-9]{0,7}|[xX][0-9a-fA-F]{0,6})|[A-Za-z][A-Za-z0-9]{0,31})?")
_URL = re.compile(r"(?:https?://|www\.)[^\s<>\"`|\\]+", re.IGNORECASE)
_URL_BEGINS = ("http://", "https://", "www.")
_URL_TAIL = re.compile(r"[.,;:!?'\"*_~)\]]+$")
_MAX_URL = 2000
_AUTOLINK = re.compile(r"<(https?://[^\s<>]*)>", re.IGNORECASE)
_TAG = re.compile(r"<(?:/?[A-Za-z][^<>\n]*|!--(?:-?|[^\n]*?--))>")
_MAX_BRACKETS = 8
"""Within each other; a picture in a link has two."""
_COMMENT = "<!--"
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_SPACES_AND_END = re.compile(r"[ \t]*(\n|$)")


class Inline:
    """Reads the inside of lines."""

    def __init__(self, options: SpeakableSettings, spoken: SpeechText) -> None:
        """Write spoken text to ``spoken``."""
        self._options = options
        self._spoken = spoken
        self._rules: dict[str, Callable[[str, int, bool], int]] = {
            "\\": self._escape,
            "`": self._code,
            "*": self._stars,
            "_": self._underscores,
            "~": self._tildes,
            "!": self._image,
            "[": self._bracket,
            "<": self._angle,
            "&": self._entity,
            "|": self._pipe,
            "#": self._hashes,
        }
        self.before = ""
        """The character before the place, "" at the beginning of a line."""
        self.is_row = False
        """Whether the line is a row of a table, whose cells have marks between them."""
        self.is_heading = False
        """Whether the line is a heading, which may end with the mark that it begins with."""
        self._depth = 0  # brackets that are open in a link's address, which is skipped

    def begin_line(self) -> None:
        """Forget the line before."""
        self.before = ""
        self.is_row = self.is_heading = False
        self._depth = 0

    def read(self, text: str, at: int, *, is_last: bool) -> int:
        """Read at a place that is no end of a line; return how many characters are dealt with."""
        if self._depth:
            num_read = self._address(text, at)
        elif (plain := _PLAIN.match(text, at)) is not None:
            num_read = len(plain[0])
            self._spoken.add(plain[0])
        else:
            num_read = self._rules.get(text[at], self._other)(text, at, is_last)
        if num_read:
            self.before = text[at + num_read - 1]
        return num_read

    def _within(self, text: str) -> None:
        at, before = 0, self.before
        while at < len(text):
            at += self.read(text, at, is_last=True)
        self.before, self._depth = before, 0

    def _address(self, text: str, at: int) -> int:
        self._depth += {"(": 1, ")": -1}.get(text[at], 0)
        return 1

    def _escape(self, text: str, at: int, is_last: bool) -> int:
        if at + 1 == len(text):
            return 1 if is_last else WAIT
        if text[at + 1] == "\n":
            return 1
        if text[at + 1] in string.punctuation:
            self._spoken.add(text[at + 1])
            return 2
        self._spoken.add("\\")
        return 1

    def _code(self, text: str, at: int, is_last: bool) -> int:
        run = _run(text, at)
        begin = at + len(run)
        if begin == len(text) and not is_last:
            return WAIT
        window = text[begin : begin + MAX_HELD]
        line, newline, _ = window.partition("\n")
        is_whole = is_last or bool(newline) or len(window) == MAX_HELD
        for found in _RUN["`"].finditer(line):
            if len(found[0]) == len(run) and (is_whole or found.end() < len(line)):
                self._spoken.add(line[: found.start()].replace("_", " "))
                return len(run) + found.end()
        return len(run) if is_whole else WAIT

    def _stars(self, text: str, at: int, is_last: bool) -> int:
        run = _run(text, at)
        after = text[at + len(run) : at + len(run) + 1]
        if not (after or is_last):
            return WAIT
        is_sign = self.before.isdigit() and after.isdigit()
        is_alone = not self.before.strip() and not after.strip()
        if len(run) == 1 and (is_sign or is_alone):
            self._spoken.add(run)
        return len(run)

    def _underscores(self, text: str, at: int, is_last: bool) -> int:
        run = _run(text, at)
        after = text[at + len(run) : at + len(run) + 1]
        if not (after or is_last):
            return WAIT
        if self.before.isalnum() and after.isalnum():
            self._spoken.add(" ")
        return len(run)

    def _tildes(self, text: str, at: int, is_last: bool) -> int:
        run = _run(text, at)
        if at + len(run) == len(text) and not is_last:
            return WAIT
        if len(run) == 1:
            self._spoken.add(run)
        return len(run)

    def _image(self, text: str, at: int, is_last: bool) -> int:
        if at + 1 == len(text) and not is_last:
            return WAIT
        if text[at + 1 : at + 2] == "[":
            num_read = self._bracket(text, at + 1, is_last, opening="![")
            return num_read and num_read + 1
        self._spoken.add("!")
        return 1

    def _bracket(self, text: str, at: int, is_last: bool, opening: str = "[") -> int:
        end, is_certain = _closing(text, at)
        if end < 0:
            if not (is_certain or is_last):
                return WAIT
            self._spoken.add(opening)
            return 1
        after = text[end + 1 : end + 2]
        if not (after or is_last):
            return WAIT
        inside = text[at + 1 : end]
        if inside.startswith("^"):
            self._spoken.leave_out()
            return end + 1 - at
        if after == "(":
            self._within(inside)
            self._depth = 1
            return end + 2 - at
        if after == "[":
            reference, is_certain = _closing(text, end + 1)
            if reference < 0 and not (is_certain or is_last):
                return WAIT
            if reference >= 0:
                self._within(inside)
                return reference + 1 - at
        self._spoken.add(opening)
        return 1

    def _angle(self, text: str, at: int, is_last: bool) -> int:
        window = text[at : at + MAX_HELD]
        is_whole = is_last or len(window) == MAX_HELD or "\n" in window
        if not is_whole and _COMMENT.startswith(window):
            return WAIT
        if window[1:2].isalpha() or window[1:2] in ("/", "!"):
            closing = "-->" if window.startswith(_COMMENT) else ">"
            if closing not in window[2:] and not is_whole:
                return WAIT
            if (link := _AUTOLINK.match(window)) is not None:
                self._say_url(link[1])
                return len(link[0])
            if (tag := _TAG.match(window)) is not None:
                self._spoken.add(" " if _BREAK.match(tag[0]) else "")
                return len(tag[0])
        self._spoken.add("<")
        return 1

    def _entity(self, text: str, at: int, is_last: bool) -> int:
        if (entity := _ENTITY.match(text, at)) is not None:
            self._spoken.add(html.unescape(entity[0]))
            return len(entity[0])
        begun = _ENTITY_BEGIN.match(text, at)
        if begun is not None and begun.end() == len(text) and not is_last:
            return WAIT
        self._spoken.add("&")
        return 1

    def _pipe(self, text: str, at: int, is_last: bool) -> int:
        rest = _SPACES_AND_END.match(text, at + 1)
        if rest is not None and not rest[1] and not is_last:
            return WAIT
        if self.is_row or (self.before.isspace() and text[at + 1 : at + 2] in (" ", "")):
            if rest is None:
                self._spoken.separate()
        else:
            self._spoken.add("|")
        return 1

    def _hashes(self, text: str, at: int, is_last: bool) -> int:
        run = _run(text, at)
        rest = _SPACES_AND_END.match(text, at + len(run))
        if rest is not None and not rest[1] and not is_last:
            return WAIT
        if rest is None or not (self.is_heading and self.before.isspace()):
            self._spoken.add(run)
        return len(run)

    def _other(self, text: str, at: int, is_last: bool) -> int:
        letter = text[at]
        if letter in "hHwW" and not self.before.isalnum():
            return self._word_or_url(text, at, is_last)
        if PICTURE.match(letter):
            if self._options.emoji == "say":
                self._spoken.add(f" {name_of(letter)} ")
            self._spoken.leave_out()
        elif not MODIFIER.match(letter):
            self._spoken.add(letter)
        return 1

    def _word_or_url(self, text: str, at: int, is_last: bool) -> int:
        window = text[at : at + _MAX_URL]
        is_open = len(window) < _MAX_URL and not is_last
        url = _URL.match(window)
        if url is None:
            if is_open and any(each.startswith(window.lower()) for each in _URL_BEGINS):
                return WAIT
            self._spoken.add(text[at])
            return 1
        if url.end() == len(window) and is_open:
            return WAIT
        address = _URL_TAIL.sub("", url[0])
        self._say_url(address)
        return len(address)

    def _say_url(self, url: str) -> None:
        if self._options.urls == "say":
            self._spoken.add(url)
        elif self._options.urls == "host":
            host = re.split(r"[/?#]", url.split("://")[-1], maxsplit=1)[0]
            self._spoken.add(host.rpartition("@")[2].removeprefix("www."))
        else:
            self._spoken.leave_out()


def _run(text: str, at: int) -> str:
    """Return as many of the mark at a place as there are."""
    found = _RUN[text[at]].match(text, at)
    assert found is not None
    return found[0]


def _closing(text: str, at: int) -> tuple[int, bool]:
    """Return where the bracket at a place closes, or -1, and whether that is certain."""
    depth = 0
    for place in range(at, min(len(text), at + MAX_HELD)):
        if text[place] == "\n":
            return -1, True
        depth += {"[": 1, "]": -1}.get(text[place], 0)
        if depth == 0:
            return place, True
        if depth > _MAX_BRACKETS:
            return -1, True
    return -1, len(text) - at >= MAX_HELD
