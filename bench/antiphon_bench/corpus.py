"""Texts of a suite by language and length, carried by the package."""

from functools import cache
from importlib import resources
from typing import Literal, TypeAlias, get_args

import yaml

from antiphon.errors import SettingsError

Language: TypeAlias = Literal["en", "zh", "mixed"]
Length: TypeAlias = Literal["short", "medium", "long"]
LANGUAGES: tuple[Language, ...] = get_args(Language)
LENGTHS: tuple[Length, ...] = get_args(Length)
"""``short``: fewer than 50 characters; ``medium``: 50 to 200; ``long``: more."""
LENGTH_BOUNDS = {"short": (1, 49), "medium": (50, 200), "long": (201, 4096)}
"""Fewest and most characters."""


@cache
def corpus() -> dict[str, dict[str, tuple[str, ...]]]:
    file = resources.files("antiphon_bench") / "data" / "texts.yaml"
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    return {
        language: {length: tuple(found[language][length]) for length in LENGTHS}
        for language in LANGUAGES
    }


def texts_of(language: str, length: str) -> tuple[str, ...]:
    """Return the texts of one language and length; raises SettingsError."""
    for name, given, known in (("language", language, LANGUAGES), ("length", length, LENGTHS)):
        if given not in known:
            raise SettingsError(f"'{given}' is no {name}; there are {', '.join(known)}.")
    return corpus()[language][length]
