"""A dictionary of what is read instead of a word: ``{"SQL": "sequel"}``.

A key stands for whole words alone. One with a capital letter is matched as it is written, one in
lower case in any case. Where several fit, the longest wins; what was put in is not looked at again.
"""

import re
from collections.abc import Mapping

from antiphon.errors import AntiphonError, InvalidRequestError, SettingsError

MAX_ENTRIES = 1000
MAX_WORD_CHARACTERS = 100
MAX_READING_CHARACTERS = 200


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
    """Reads words in other ways; made once, used for many texts."""

    def __init__(self, *dictionaries: Mapping[str, str]) -> None:
        """Merge dictionaries; of two entries for a word, the later one counts."""
        merged = {
            " ".join(word.split()): reading.strip()
            for entries in dictionaries
            for word, reading in entries.items()
        }
        words = sorted(merged, key=lambda word: (-len(word), not _is_exact(word)))
        self._readings = [merged[word] for word in words]
        self._pattern = re.compile("|".join(map(_word_pattern, words))) if words else None

    def applied(self, text: str) -> str:
        """Return the text as it is to be read."""
        return text if self._pattern is None else self._pattern.sub(self._reading, text)

    def _reading(self, found: "re.Match[str]") -> str:
        assert found.lastindex is not None, "each word is a group"
        return self._readings[found.lastindex - 1]


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


def _is_exact(word: str) -> bool:
    return word != word.lower()


def _word_pattern(word: str) -> str:
    spelled = r"\s+".join(re.escape(part) for part in word.split())
    return rf"(?<!\w)(?{'' if _is_exact(word) else 'i'}:({spelled}))(?!\w)"
