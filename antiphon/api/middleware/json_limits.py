"""Limits of JSON, counted while its bytes arrive, before any of it is parsed.

A text of megabytes costs the interpreter milliseconds; a million empty lists cost it a second, in
which no other request is served. So it is values that are counted, and what is not text.
"""

import json
import re
from typing import Any

from antiphon.errors import InvalidRequestError

MAX_VALUES = 10_000
MAX_STRUCTURE_BYTES = 1024 * 1024
"""Of all that is no string: numbers, names of members left out, white space."""
MAX_ESCAPES = 3_000_000
MAX_SHORT_ESCAPES = 500_000
"""As a line break is one; what has no ASCII is usually written in six characters each."""
MAX_WIDE_BYTES = 6 * 1024 * 1024
"""Size of all strings that are not plain ASCII; recordings in base64 are. Python stores them in up
to four bytes a character, and takes a while to make them."""
_SLICE_BYTES = 64 * 1024
_REST_OF_STRING = re.compile(rb"[^\"\\]*+(?:\\.[^\"\\]*+)*+", re.DOTALL)


class JsonMeter:
    """Reads JSON in pieces, and refuses what would cost too much; it need not be valid."""

    def __init__(self) -> None:
        self._is_in_string = self._is_escaped = self._ends_in_backslash = False
        self._num_values = self._num_strings = self._num_structure_bytes = 0
        self._num_backslashes = self._num_long_escapes = 0
        self._is_wide = False
        self._num_string_bytes = self._num_wide_bytes = 0

    def feed(self, piece: bytes) -> None:
        """Count a piece of any length; raises InvalidRequestError if it is too much."""
        for start in range(0, len(piece), _SLICE_BYTES):
            self._feed(piece[start : start + _SLICE_BYTES])

    def _feed(self, piece: bytes) -> None:
        at = int(self._is_escaped)
        if self._ends_in_backslash and piece.startswith(b"u"):
            self._num_long_escapes += 1
            self._is_wide = True
        self._num_backslashes += self._is_escaped and piece.startswith(b"\\")
        self._num_string_bytes += 2 * self._is_escaped
        self._is_escaped = False
        while at < len(piece):
            at = self._string(piece, at) if self._is_in_string else self._structure(piece, at)
        self._ends_in_backslash = self._is_in_string and piece.endswith(b"\\")
        num_short = self._num_backslashes - self._num_long_escapes
        if num_short > MAX_SHORT_ESCAPES or self._num_backslashes > MAX_ESCAPES:
            raise _too_much(f"at most {MAX_SHORT_ESCAPES} escaped characters are allowed")

    def _structure(self, piece: bytes, start: int) -> int:
        end = piece.find(b'"', start)
        self._is_in_string = end >= 0
        end = len(piece) if end < 0 else end
        self._num_structure_bytes += end - start
        self._num_values += sum(piece.count(mark, start, end) for mark in (b",", b"[", b"{"))
        if self._num_values > MAX_VALUES:
            raise _too_much(f"at most {MAX_VALUES} values are allowed")
        if self._num_structure_bytes > MAX_STRUCTURE_BYTES:
            raise _too_much(f"at most {MAX_STRUCTURE_BYTES} bytes outside of strings are allowed")
        return end + 1

    def _string(self, piece: bytes, start: int) -> int:
        end = piece.find(b'"', start)
        end = len(piece) if end < 0 else end
        if piece.find(b"\\", start, end) >= 0:  # else it needs no expression, which takes longer
            found = _REST_OF_STRING.match(piece, start)
            assert found is not None  # it matches nothing, too
            end = found.end()
            self._is_escaped = piece[end : end + 1] == b"\\"  # it is the last byte of this piece
            self._num_backslashes += piece.count(b"\\", start, end + 1)
            num_long_escapes = piece.count(b"\\u", start, end)
            self._num_long_escapes += num_long_escapes
            self._is_wide |= num_long_escapes > 0
        self._num_string_bytes += end - start
        self._is_wide |= not piece[start:end].isascii()
        if self._is_wide and self._num_wide_bytes + self._num_string_bytes > MAX_WIDE_BYTES:
            raise _too_much(f"at most {MAX_WIDE_BYTES} bytes of text beyond ASCII are allowed")
        if end < len(piece) and not self._is_escaped:
            self._num_wide_bytes += self._num_string_bytes if self._is_wide else 0
            self._num_string_bytes, self._is_in_string, self._is_wide = 0, False, False
            self._num_strings += 1
            if self._num_strings > 2 * MAX_VALUES:  # names of members are strings, too
                raise _too_much(f"at most {2 * MAX_VALUES} strings are allowed")
        return end + 1


def loads(text: str | bytes) -> Any:
    """Return the value of JSON that arrived otherwise than as a body.

    Raises:
        InvalidRequestError: it would cost too much.
        ValueError: it is no JSON.
        RecursionError: it is too deep.
    """
    if len(text) > MAX_VALUES:  # of shorter ones each character may be a value
        JsonMeter().feed(text.encode(errors="replace") if isinstance(text, str) else text)
    return json.loads(text)


def _too_much(reason: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"The JSON of this body or message is too large: {reason}.", code="json_too_large"
    )
