"""A dictionary of what is read instead of a word: ``{"SQL": "sequel"}``.

A key stands for whole words alone. One with a capital letter is matched as it is written, one in
lower case in any case. Where several fit, the longest wins; what was put in is not looked at again.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice

from antiphon.errors import AntiphonError, SettingsError, invalid
from antiphon.text.offset_map import OffsetMap

MAX_ENTRIES = 1000
MAX_WORD_CHARACTERS = 100
MAX_READING_CHARACTERS = 200

_TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
_SPACE = " "
_NUM_TOKENS_AT_ONCE = 4096
_MAX_HELD = 1000  # characters; beyond, a word that may go on is taken for what there is of it


def check_pronunciations(entries: Mapping[str, str]) -> None:
    """Refuse a dictionary that is too large, or has nothing in one of its places.

    Raises:
        InvalidRequestError: it names the entry.
    """
    if len(entries) > MAX_ENTRIES:
        raise invalid(
            "pronunciations", f"{len(entries)} entries; at most {MAX_ENTRIES} are allowed"
        )
    for word, reading in entries.items():
        _check_length(ascii(word[:40]), word, MAX_WORD_CHARACTERS)
        _check_length(f"what is read for {word[:40]!a}", reading, MAX_READING_CHARACTERS)


def _check_length(shown: str, text: str, max_characters: int) -> None:
    if not text.strip() or len(text) > max_characters:
        raise invalid("pronunciations", f"{shown} must have 1 to {max_characters} characters")


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
            tokens = _TOKEN.findall(word)
            tree = self._any_case if word == word.lower() else self._exact
            tree.add(tokens, _Reading(reading, len(word), len(tokens)))

    def extended(self, entries: Mapping[str, str]) -> "Pronunciations":
        """Return these with more entries, which count where both know a word."""
        return Pronunciations(self._entries, entries) if entries else self

    def found(self, tokens: list[str], place: int) -> "tuple[_Reading | None, bool]":
        """Return the longest word that stands here, and whether no further token changes that.

        Of two entries that fit, the one that is in this very case counts.
        """
        if place > 0 and _is_letters(tokens[place - 1]):
            return None, True
        exact, exact_is_certain = self._exact.find(tokens, place, str)
        any_case, any_case_is_certain = self._any_case.find(tokens, place, str.lower)
        is_certain = exact_is_certain and any_case_is_certain
        if exact is None or any_case is None:
            return exact or any_case, is_certain
        longer = exact if exact.num_characters >= any_case.num_characters else any_case
        return longer, is_certain

    @property
    def is_empty(self) -> bool:
        """Whether all words are read as they are written."""
        return not self._entries


class WordReplacer:
    """Reads the words of a text that arrives in pieces; where it is cut plays no part.

    What may be a part of a word of the dictionary is held back until that is certain.
    """

    def __init__(self, pronunciations: Pronunciations, offsets: OffsetMap) -> None:
        """Begin a text; ``offsets`` gets the origins of what is read."""
        self._pronunciations = pronunciations
        self._offsets = offsets
        self._token_before: list[str] = []  # it decides whether a word begins after it
        self._held = ""

    def push(self, text: str, *, is_last: bool = False) -> Iterator[str]:
        """Yield what has become certain with more text; nothing is held back of the last."""
        if self._pronunciations.is_empty:
            self._offsets.copy(len(text))
            yield text
            return
        coming = (found[0] for found in _TOKEN.finditer(self._held + text))
        tokens = self._token_before
        place = len(tokens)
        while True:
            if len(tokens) - place <= MAX_WORD_CHARACTERS:  # a word has no more tokens than that
                kept = max(0, place - 1)
                tokens, place = [*tokens[kept:], *islice(coming, _NUM_TOKENS_AT_ONCE)], place - kept
            if place >= len(tokens):
                break
            found, is_certain = self._pronunciations.found(tokens, place)
            if not (is_certain or is_last) and sum(map(len, tokens[place:])) <= _MAX_HELD:
                break
            if found is None:
                self._offsets.copy(len(tokens[place]))
                yield tokens[place]
                place += 1
                continue
            stop = place + found.num_tokens
            self._offsets.exchange(sum(map(len, tokens[place:stop])), len(found.text))
            yield found.text
            place = stop
        self._token_before, self._held = tokens[max(0, place - 1) : place], "".join(tokens[place:])


@dataclass(frozen=True, slots=True)
class _Reading:
    text: str
    num_characters: int
    num_tokens: int


class _Tree:
    def __init__(self) -> None:
        self._next: dict[str, _Tree] = {}
        self._reading: _Reading | None = None

    def add(self, tokens: list[str], reading: _Reading) -> None:
        """Add a word; a later one takes the place of an equal one."""
        tree = self
        for token in tokens:
            tree = tree._next.setdefault(_SPACE if token.isspace() else token, _Tree())
        tree._reading = reading

    def find(
        self, tokens: list[str], start: int, folded: Callable[[str], str]
    ) -> tuple[_Reading | None, bool]:
        """Return the reading of the longest word that begins here and ends before no letter.

        Also whether that is certain whatever tokens follow, and whether or not the last one grows.
        """
        last = len(tokens) - 1
        tree, found = self._next.get(folded(tokens[start])), None
        is_certain = start < last or not _is_letters(tokens[start])
        while tree is not None:
            start += 1
            following = tokens[start] if start <= last else ""
            is_certain = start < last or (start == last and not _is_letters(following))
            if tree._reading is not None and not _is_letters(following):
                found = tree._reading
            tree = tree._next.get(_SPACE if following.isspace() else folded(following))
        return found, is_certain


def _is_letters(token: str) -> bool:
    return token[:1].isalnum() or token[:1] == "_"


def settings_pronunciations(entries: Mapping[str, str]) -> Pronunciations:
    """Return the server's dictionary; raises SettingsError if an entry is wrong."""
    try:
        check_pronunciations(entries)
    except AntiphonError as error:
        raise SettingsError(f"speech.pronunciations: {error.message}") from error
    return Pronunciations(entries)
