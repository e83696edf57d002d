"""Tables written as text, and contexts: the neighbours that choose between a word's readings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

ANY = "*"
_NUM_NEAR = 4


def words(text: str) -> frozenset[str]:
    return frozenset(text.split())


def pairs(text: str) -> dict[str, str]:
    """Return a mapping written as "key=value, key=value"."""
    entries = " ".join(text.split()).split(", ")
    return {key: value for key, _, value in (entry.rpartition("=") for entry in entries)}


def either_case(text: str) -> dict[str, str]:
    """Return a mapping as of `pairs`, for keys with a small and with a capital letter."""
    small = pairs(text)
    large = {key[0].upper() + key[1:]: value[0].upper() + value[1:] for key, value in small.items()}
    return large | small


def forms(text: str) -> dict[str, tuple[str, ...]]:
    """Return a mapping to several forms, written as "key=form/form"."""
    return {key: tuple(value.split("/")) for key, value in pairs(text).items()}


def counted(text: str) -> dict[str, tuple[str, ...]]:
    """Return singular and plural of names, written as `forms`; a regular plural is left out."""
    return {key: (*names, f"{names[0]}s")[:2] for key, names in forms(text).items()}


@dataclass(frozen=True, slots=True)
class Context:
    """Reading of a word next to others.

    Attributes:
        before: marks of which the words before must have one.
        after: marks of which the words after must have one.
        reading: name of the reading, in the terms of the table.
    """

    before: frozenset[str]
    after: frozenset[str]
    reading: str


Contexts: TypeAlias = Mapping[str, tuple[Context, ...]]
"""Readings by word, the first that fits is meant."""


def contexts(text: str, **groups: frozenset[str]) -> Contexts:
    """Return a table with a row per line: "words | before | after | reading".

    Before and after are words next to the word: ``a_b`` two of them, ``~a`` one of four,
    ``<number>``, ``<name>`` (a capital), ``<small>``, ``<acronym>`` (three or four capitals),
    ``<state>`` (two), ``<plural>``, ``<end>`` (no word) a kind of word, and ``*`` anything.
    A word may have a reading of its own: "tabs=tablets".

    Args:
        groups: lists of words that a row names in braces.
    """
    table: dict[str, tuple[Context, ...]] = {}
    for line in text.format(**{name: " ".join(group) for name, group in groups.items()}).split(
        "\n"
    ):
        keys, _, rest = line.partition(" | ")
        before, _, rest = rest.partition(" | ")
        after, _, reading = rest.partition(" |")
        for entry in keys.split():
            key, _, own = entry.partition("=")
            row = Context(words(before), words(after), own.replace("_", " ") or reading.strip())
            table[key] = (*table.get(key, ()), row)
    return table


def reading_in(rows: Sequence[Context], before: Sequence[str], after: Sequence[str]) -> str | None:
    """Return the reading of the first context that fits; ``None`` if none does.

    Args:
        rows: contexts of the word.
        before: words before it, the nearest first.
    """
    if not rows:
        return None
    left, right = _marks(before, -1), _marks(after, 1)
    for row in rows:
        if not (row.before.isdisjoint(left) or row.after.isdisjoint(right)):
            return row.reading
    return None


def _marks(neighbours: Sequence[str], step: int) -> set[str]:
    near = [word.lower() for word in neighbours[:_NUM_NEAR]]
    marks = {ANY, *near[:1], *(f"~{word}" for word in near), "_".join(near[:2][::step])}
    first = neighbours[0] if neighbours else ""
    kinds = {
        "<number>": first.isdecimal(),
        "<end>": not first[:1].isalnum(),
        "<name>": first[:1].isupper() and len(first) > 1,
        "<small>": first.islower(),
        "<acronym>": first.isupper() and len(first) in (3, 4),
        "<state>": first.isupper() and len(first) == 2,
        "<plural>": first.islower() and first.endswith("s") and not first.endswith("ss"),
    }
    return marks.union(kind for kind, fits in kinds.items() if fits)
