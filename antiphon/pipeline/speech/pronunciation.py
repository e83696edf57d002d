"""A dictionary of what is read instead of a word: ``{"SQL": "sequel"}``.

A key stands for whole words alone. One with a capital letter is matched as it is written, one in
lower case in any case. Where several fit, the longest wins; what was put in is not looked at again.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from antiphon.errors import (
    AntiphonError,
    InputTooLongError,
    InvalidRequestError,
    SettingsError,
)

MAX_ENTRIES = 1000
MAX_WORD_CHARACTERS = 100
MAX_READING_CHARACTERS = 200

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_SPACE = " "
_NUM_TOKENS_AT_ONCE = 4096


def check_pronunciations(entries: Mapping[str, str]) -> None:
    """Refuse a dictionary that is too large, or has nothing in one of its places.

    Raises:
        InvalidRequestError: says which entry.
    """
    problem = _problem(entries)
    if problem is not None:
        raise InvalidRequestError(f"Invalid 'pronunciations': {problem}.", param="pronunciations")


def _problem(entries: Mapping[str, str]) -> str | None:
    if len(entries) > MAX_ENTRIES:
        return f"{len(entries)} entries; at most {MAX_ENTRIES} are allowed"
    for word, reading in entries.items():
        shown = ascii(word[:40])
        if not word.strip() or len(word) > MAX_WORD_CHARACTERS:
            return f"{shown} must have 1 to {MAX_WORD_CHARACTERS} characters"
        if not reading.strip() or len(reading) > MAX_READING_CHARACTERS:
            return f"what is read for {shown} must have 1 to {MAX_READING_CHARACTERS} characters"
    return None


class Pronunciations:
    """Reads words in other ways; made once, used for many texts.

    The words are a tree of tokens: letters that stand together, or one sign, or spaces. A text is
    gone through token by token, so that the work grows with the text alone, however many words
    there are.
    """

    def __init__(self, *dictionaries: Mapping[str, str]) -> None:
        """Merge dictionaries; of two entries for a word, the later one counts."""
        self._entries = {
            " ".join(word.split()): reading.strip()
            for entries in dictionaries
            for word, reading in entries.items()
        }
        self._exact, self._any_case = _Tree(), _Tree()
        for word, reading in self._entries.items():
            if word != word.lower():
                self._exact.add(_TOKEN.findall(word), _Reading(reading, len(word)))
            else:
                self._any_case.add(_TOKEN.findall(word), _Reading(reading, len(word)))

    def extended(self, entries: Mapping[str, str]) -> "Pronunciations":
        """Return these with more entries, which count where both know a word."""
        return Pronunciations(self._entries, entries) if entries else self

    def applied(self, text: str, max_characters: int = sys.maxsize) -> str:
        """Return the text as it is to be read.

        Raises:
            InputTooLongError: it becomes longer than ``max_characters``.
        """
        if not self._entries:
            return text
        written: list[str] = []
        num_characters = 0
        for part in self._parts(text):
            written.append(part)
            num_characters += len(part)
            if num_characters > max_characters:
                raise InputTooLongError(num_characters, max_characters)
        return "".join(written)

    def _parts(self, text: str) -> Iterator[str]:
        """Yield tokens, and readings in the place of those that are words of ours."""
        coming = (found[0] for found in _TOKEN.finditer(text))
        tokens: list[str] = []
        place = 0
        while True:
            if len(tokens) - place <= MAX_WORD_CHARACTERS:  # a word has no more tokens than that
                kept = max(0, place - 1)  # what is before a word matters too
                tokens, place = [*tokens[kept:], *islice(coming, _NUM_TOKENS_AT_ONCE)], place - kept
            if place >= len(tokens):
                return
            found = self._found(tokens, place)
            yield tokens[place] if found is None else found.text
            place += 1 if found is None else found.num_tokens

    def _found(self, tokens: list[str], place: int) -> "_Reading | None":
        """Return the longest word that stands here; of two, the one that is in this very case."""
        if place > 0 and _is_letters(tokens[place - 1]):
            return None
        exact = self._exact.find(tokens, place, str)
        any_case = self._any_case.find(tokens, place, str.lower)
        if exact is None or any_case is None:
            return exact or any_case
        return exact if exact.num_characters >= any_case.num_characters else any_case


@dataclass(slots=True)
class _Reading:
    """What is read instead of a word.

    Attributes:
        text: what is read.
        num_characters: of the word.
        num_tokens: of the word.
    """

    text: str
    num_characters: int
    num_tokens: int = 0


class _Tree:
    """Words by their tokens."""

    def __init__(self) -> None:
        self._next: dict[str, _Tree] = {}
        self._reading: _Reading | None = None

    def add(self, tokens: list[str], reading: _Reading) -> None:
        """Add a word; a later one takes the place of an equal one."""
        tree = self
        for token in tokens:
            tree = tree._next.setdefault(_SPACE if token.isspace() else token, _Tree())
        reading.num_tokens = len(tokens)
        tree._reading = reading

    def find(self, tokens: list[str], start: int, folded: Callable[[str], str]) -> _Reading | None:
        """Return the reading of the longest word that begins here and ends before no letter."""
        tree, found = self._next.get(folded(tokens[start])), None
        while tree is not None:
            start += 1
            following = tokens[start] if start < len(tokens) else ""
            if tree._reading is not None and not _is_letters(following):
                found = tree._reading
            tree = tree._next.get(_SPACE if following.isspace() else folded(following))
        return found


def _is_letters(token: str) -> bool:
    return token[:1].isalnum() or token[:1] == "_"


def settings_pronunciations(entries: Mapping[str, str]) -> Pronunciations:
    """Return the server's dictionary.

    Raises:
        SettingsError: an entry is wrong.
    """
    try:
        check_pronunciations(entries)
    except AntiphonError as error:
        raise SettingsError(f"speech.pronunciations: {error.message}") from error
    return Pronunciations(entries)
