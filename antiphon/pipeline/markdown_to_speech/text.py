"""Conversion of streaming Markdown to spoken text, as soon as it is certain.

The result is the same for any division into pieces. Certain text is returned at once, not at the
end of a paragraph as by a parser of whole documents.
"""

import re
from collections.abc import Callable

from antiphon.config.chat import SpeakableSettings
from antiphon.pipeline.markdown_to_speech.inline import MAX_HELD, WAIT, Inline
from antiphon.pipeline.markdown_to_speech.spoken_text import SpeechText

_SIGNS = re.compile(r"[-*_+=|:][-*_+=|: \t]*")
"""What a line of nothing else is, is certain at its end."""
_BREAK = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}")
_UNDERLINE = re.compile(r"=+[ \t]*")
_DELIMITERS = re.compile(r"[-:| \t]*-[-:| \t]*")
_EMPTY = re.compile(r"[-*+|][| \t]*")
_BULLET = re.compile(r"[-*+][ \t]+")
_NUMBER = re.compile(r"([0-9]{1,9})[.)](?:[ \t]+|$)")
_NUMBER_BEGIN = re.compile(r"[0-9]{1,9}[.)]?")
_HASHES = re.compile(r"#+")
_MAX_HASHES = 6
_FENCE = re.compile(r"`+|~+")
_MIN_FENCE = 3
_CLOSING_FENCE = re.compile(r"[ \t>]*(`{3,}|~{3,})[ \t]*")
_TASK = re.compile(r"\[[ xX]\][ \t]")
_TASK_LENGTH = 4
_DEFINITION = re.compile(r"\[(\^?)[^\]]{1,300}\]:")
_DEFINITION_BEGIN = re.compile(r"\[[^\]]{0,301}\]?")


class SpeakableText:
    """One text, from its first piece to its end."""

    def __init__(self, options: SpeakableSettings | None = None) -> None:
        self._options = options or SpeakableSettings()
        self._spoken = SpeechText()
        self._inline = Inline(self._options, self._spoken)
        self._marks: dict[str, Callable[[str, bool], int | None]] = {
            **dict.fromkeys("`~", self._open_code),
            **dict.fromkeys("0123456789", self._number),
            "#": self._heading,
            "[": self._label,
        }
        self._waiting = ""
        self._fence = ""  # that the block of code began with
        self._is_line_start = True  # only marks of blocks have come of the line
        self._is_skipped = False  # the rest of the line is
        self._has_text = False
        self._is_closed = False  # the line is a sentence: a heading, an item, a row
        self._is_bullet = False
        self._in_paragraph = False  # the line before is one

    def push(self, text: str) -> str:
        """Take written text; return the spoken text that is certain, possibly ""."""
        if self._options.markdown == "as_written":
            return text
        self._waiting += text
        self._read(is_last=False)
        return self._spoken.taken()

    def flush(self) -> str:
        """Return the remaining spoken text, at the end."""
        self._read(is_last=True)
        if self._is_closed:
            self._spoken.end_sentence()
        return self._spoken.taken()

    def _read(self, *, is_last: bool) -> None:
        text, at = self._waiting, 0
        while at < len(text):
            if text[at] == "\n":
                self._end_line()
                at += 1
                continue
            end = text.find("\n", at)
            line_end = len(text) if end < 0 else end
            if self._is_skipped:
                at = line_end
            elif self._is_line_start:
                num_read = self._begin(text[at:line_end], is_whole=is_last or end >= 0)
                if num_read is None:
                    break
                at += num_read
            else:
                self._has_text = True
                num_read = self._inline.read(text, at, is_last=is_last)
                if num_read == WAIT:
                    break
                at += num_read
        self._waiting = text[at:]

    def _end_line(self) -> None:
        if self._is_closed:
            self._spoken.end_sentence()
        self._spoken.end_line()
        self._in_paragraph = self._has_text and not self._is_closed
        self._inline.begin_line()
        self._is_line_start = True
        self._is_skipped = self._has_text = self._is_closed = self._is_bullet = False

    def _begin(self, line: str, *, is_whole: bool) -> int | None:
        """Read a mark at the beginning of a line; ``None``: more of it is needed.

        Args:
            line: Line so far; not empty.
            is_whole: it has come to its end.
        """
        if self._fence:
            return self._in_code(line) if is_whole else None
        if line[0] in " \t>":
            return 1
        window = line[:MAX_HELD]
        if _SIGNS.fullmatch(window):
            if not is_whole and len(window) < MAX_HELD:
                return None
            return self._skip(line) if self._is_rule(window) else self._text()
        if (mark := self._marks.get(line[0])) is not None:
            return mark(line, is_whole)
        if line[0] == "|":
            return self._row(line)
        if (bullet := _BULLET.match(line)) is not None:
            self._is_closed = self._is_bullet = True
            return len(bullet[0])
        return self._text()

    def _text(self) -> int:
        self._is_line_start = False
        return 0

    def _skip(self, line: str) -> int:
        self._is_skipped = True
        return len(line)

    def _is_rule(self, line: str) -> bool:
        """Return whether a line of signs parts what is above it from what is below."""
        if self._in_paragraph and _UNDERLINE.fullmatch(line):
            return True
        return any(each.fullmatch(line) for each in (_BREAK, _DELIMITERS, _EMPTY))

    def _in_code(self, line: str) -> int:
        closing = _CLOSING_FENCE.fullmatch(line)
        if closing is not None and closing[1].startswith(self._fence):
            self._fence = ""
        elif self._options.code_blocks == "say":
            self._spoken.add(line)
        return self._skip(line)

    def _open_code(self, line: str, is_whole: bool) -> int | None:
        fence = _FENCE.match(line)
        assert fence is not None
        if len(fence[0]) == len(line) and not is_whole:
            return None
        rest = line[len(fence[0]) : len(fence[0]) + MAX_HELD]
        if len(fence[0]) < _MIN_FENCE or line[0] in rest:
            return self._text()
        if not is_whole and len(rest) < MAX_HELD:
            return None
        self._fence = fence[0]
        return self._skip(line)

    def _heading(self, line: str, is_whole: bool) -> int | None:
        hashes = _HASHES.match(line)
        assert hashes is not None
        num_hashes = len(hashes[0])
        if num_hashes == len(line) and not is_whole:
            return None
        if num_hashes > _MAX_HASHES or line[num_hashes : num_hashes + 1].strip(" \t"):
            return self._text()
        self._is_closed = self._inline.is_heading = True
        return num_hashes

    def _number(self, line: str, is_whole: bool) -> int | None:
        if _NUMBER_BEGIN.fullmatch(line) and not is_whole:
            return None
        number = _NUMBER.match(line)
        # As in CommonMark: a line of a paragraph that begins with a year begins no list.
        if number is None or (self._in_paragraph and int(number[1]) != 1):
            return self._text()
        self._is_closed = True
        self._spoken.add(f"{number[1]}: ")
        return len(number[0])

    def _label(self, line: str, is_whole: bool) -> int | None:
        if self._is_bullet:
            if len(line) < _TASK_LENGTH and not is_whole:
                return None
            if _TASK.match(line):
                return _TASK_LENGTH
        definition = _DEFINITION.match(line)
        if definition is not None:
            return len(definition[0]) if definition[1] else self._skip(line)
        if _DEFINITION_BEGIN.fullmatch(line) and not is_whole:
            return None
        return self._text()

    def _row(self, line: str) -> int:
        if self._options.tables == "skip":
            return self._skip(line)
        self._is_closed = self._inline.is_row = True
        return 1
