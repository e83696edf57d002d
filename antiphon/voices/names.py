"""Rules for voice names: readable, and not to be confused with each other."""

import re
import unicodedata
from collections.abc import Iterable

from antiphon.errors import InputTooLongError, invalid

MAX_NAME_CHARACTERS = 100

_MAX_GROWTH = 4  # of a text that is written with combining characters
_MAX_KEY_CHARACTERS = 54 * MAX_NAME_CHARACTERS  # NFKC makes up to 18 of one, folding three of each
_JOINERS = "\u200c\u200d"  # invisible, but some scripts are not written without them
_HIDDEN = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}  # control, format, private, line ends ...
_RESERVED_PATTERN = re.compile(r"(voice|cons)_[0-9a-f]{24}")


def checked_text(text: str, param: str, max_characters: int) -> str:
    """Return a text in its normal form, without blanks at its ends; raises InvalidRequestError."""
    if len(text) <= _MAX_GROWTH * max_characters:  # a longer one is not looked at at all
        text = unicodedata.normalize("NFC", text).strip(" \t\r\n")
    if len(text) > max_characters:
        raise InputTooLongError(len(text), max_characters, param)
    if any(unicodedata.category(each) == "Cs" or each == "\0" for each in text):
        raise invalid(param, "it is not valid text")
    return text


def checked_name(name: str) -> str:
    """Return a name in its normal form; raises InvalidRequestError."""
    name = checked_text(name, "name", MAX_NAME_CHARACTERS)
    if any(unicodedata.category(each) in _HIDDEN and each not in _JOINERS for each in name):
        raise invalid("name", "it has control characters, or others that do not show")
    name = " ".join(name.split())
    if not name_key(name):
        raise invalid("name", "it is empty")
    if name in (".", "..") or "/" in name or "\\" in name:
        raise invalid("name", "it may not contain '/' or '\\', nor be '.' or '..'")
    if _RESERVED_PATTERN.fullmatch(name_key(name)):
        raise invalid("name", "it looks like an id")
    return name


def name_key(name: str) -> str:
    """Return what is the same for all spellings of a name that look alike.

    A text that is longer than any key is its own, unread.
    """
    if len(name) > _MAX_KEY_CHARACTERS:
        return name
    plain = "".join(each for each in name if each not in _JOINERS)
    folded = unicodedata.normalize("NFKC", plain).casefold()
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def check_not_reserved(name: str, reserved: Iterable[str]) -> None:
    """Refuse names that mean something already: the model's own voices, and aliases.

    Raises:
        InvalidRequestError: it is one of them.
    """
    if name_key(name) in {name_key(each) for each in reserved}:
        raise invalid(
            "name", f"'{name}' is reserved: it is the name or alias of a voice of the model"
        )
