"""Collects spoken text: no more than one space, and an end to lines that have none."""

import re

_CLOSED = frozenset(".,;:!?…。，、；：！？؟।")
_QUOTES = frozenset("\"'”’)]}»")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]")
_NO_SPACE_BEFORE = frozenset(".,;:!?)]}…")


class SpeechText:
    """Text on its way to a voice."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._space = ""
        self._last = "\n"  # sounding character, or the end of a line
        self._before = ""  # the one before a closing quote
        self._has_gap = False  # something was left out where the space is
        self._is_separated = False  # a comma belongs before the next text
        self._num_newlines = 2  # none at the beginning

    def add(self, text: str) -> None:
        """Add text; of several spaces one is kept, when words follow."""
        for letter in text:
            if letter in " \t":
                self._space = " "
            elif letter == "\n":
                self.end_line()
            else:
                self._add(letter)

    def leave_out(self) -> None:
        """Note that something is missing here."""
        self._has_gap = True

    def separate(self) -> None:
        """Add a comma before the next text of the line, if there is something on both sides."""
        self._is_separated = True
        self._space = " "

    def end_sentence(self) -> None:
        """Add a full stop, if the text has no end of its own."""
        last = self._before if self._last in _QUOTES and self._before else self._last
        self._is_separated = False
        if last not in _CLOSED and last != "\n":
            self._put("。" if _WIDE.match(last) else ".")

    def end_line(self) -> None:
        """End a line; spaces around its end are no text, and of empty lines one is enough."""
        self._space = ""
        self._has_gap = self._is_separated = False
        if self._num_newlines < 2:
            self._parts.append("\n")
        self._num_newlines += 1
        self._last = "\n"

    def taken(self) -> str:
        """Return what has been added since the last call."""
        text = "".join(self._parts)
        self._parts.clear()
        return text

    def _add(self, letter: str) -> None:
        if self._is_separated:
            self._is_separated = False
            if self._last not in _CLOSED and self._last != "\n":
                self._put(",")
            self._space = " "
        is_before_gap = self._has_gap and letter in _NO_SPACE_BEFORE
        if self._space and self._last != "\n" and not is_before_gap:
            self._parts.append(" ")
        self._put(letter)

    def _put(self, letter: str) -> None:
        self._space = ""
        self._has_gap = False
        self._num_newlines = 0
        self._parts.append(letter)
        if letter not in _QUOTES:
            self._before = letter
        elif self._last == "\n":
            self._before = ""
        self._last = letter
