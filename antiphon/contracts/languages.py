"""Language names and BCP 47 tags, resolved to the values that a model accepts."""

import re
import tomllib
import unicodedata
from collections.abc import Collection
from pathlib import Path

from antiphon.errors import InvalidRequestError

AUTO = "auto"
"""The value that leaves the language to the model."""

_MAX_CHARACTERS = 80

_NAMES: dict[str, str] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)

_TAG = re.compile(
    r"(?P<language>[a-z]{2,3})(?:-[a-z]{3}){0,2}?(?:-(?P<extended>[a-z]{3}))?"
    r"(?:-[a-z]{4})?(?:-(?P<region>[a-z]{2}|\d{3}))?"
    r"(?:-(?:[a-z0-9]{5,8}|\d[a-z0-9]{3}))*(?:-[a-wyz0-9](?:-[a-z0-9]{2,8})+)*"
    r"(?:-x(?:-[a-z0-9]{1,8})+)?"
)
"""RFC 5646: language, extended language, script, region, variants, extensions, private use."""


def _key(language: str) -> str:
    return unicodedata.normalize("NFC", language).strip().casefold().replace("_", "-")


_CODES = {_key(name): code for code, names in _NAMES.items() for name in (code, *names.split())}


def resolve_language(
    language: str | None, available: Collection[str], *, param: str = "language"
) -> str | None:
    """Return the model's own value for a language; ``None`` leaves it to the model.

    A name or a tag resolves to the same language. What a tag adds to the language narrows the
    choice where the model distinguishes it, and is dropped otherwise, as in RFC 4647's lookup.

    Args:
        language: BCP 47 tag, with hyphens or underscores, or an English or native name; in any
            case. Blank and ``auto`` mean ``None``.
        available: values that the model accepts, in lower case with hyphens.

    Raises:
        InvalidRequestError: the model has no such language.
    """
    language = (language or "").strip()
    key = _key(language) if len(language) <= _MAX_CHARACTERS else "?"
    if key in ("", AUTO):
        return None
    if key in available:
        return key
    found = next((each for each in _spellings(key) if each in available), None)
    if found is None and (code := language_code(key)) is not None:
        found = next((each for each in available if language_code(each) == code), None)
    if found is None:
        known = ", ".join(available) or "none, this model decides by itself"
        shown = language[:_MAX_CHARACTERS]
        raise InvalidRequestError(f"Invalid '{param}': '{shown}'. Available: {known}.", param=param)
    return found


def _spellings(key: str) -> tuple[str, ...]:
    """Return what a model may call a language, the most specific first."""
    code = language_code(key)
    if code is None:
        return ()
    tag = _TAG.fullmatch(key)
    regional = (f"{code}-{tag['region']}",) if tag and tag["region"] else ()
    return (*regional, code)


def language_code(key: str) -> str | None:
    """Return the code of a name or tag in lower case, ISO 639-1 if there is one; else ``None``."""
    if key in _CODES:
        return _CODES[key]
    tag = _TAG.fullmatch(key)
    if tag is None:
        return None
    language = tag["extended"] or tag["language"]
    return _CODES.get(language, language)
