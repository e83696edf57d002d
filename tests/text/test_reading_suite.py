"""Everyday English, text and reading, by class: compared by the phonemes of the default voice."""

import re
from pathlib import Path

import pytest

from antiphon.families.hibari.prompt import reader
from antiphon.text.base import UNSPOKEN_PHONEMES
from antiphon.text.normalizer import normalized

SUITE = Path(__file__).parent / "reading_suite"
DOCS = Path(__file__).parents[2] / "docs/long-text.md"
MIN_CASES = 400


def cases(name: str) -> list[tuple[str, str]]:
    lines = (SUITE / f"{name}.tsv").read_text(encoding="utf-8").splitlines()
    return [(text, read) for text, _, read in (line.partition("\t") for line in lines)]


CLASSES = sorted(path.stem for path in SUITE.glob("*.tsv"))
CASES = [(name, text, read) for name in CLASSES for text, read in cases(name)]


def sounds(text: str, *, british: bool) -> str:
    """Return the phonemes of a text without stress, pauses and spaces."""
    read = reader(british=british).pronounce(text)
    return "".join(symbol for symbol in read if symbol not in UNSPOKEN_PHONEMES)


@pytest.mark.parametrize("name", CLASSES)
def test_texts_are_read_as_people_read_them(name: str) -> None:
    british = name == "british"
    wrong = {
        text: normalized(text, british=british)
        for text, read in cases(name)
        if sounds(text, british=british) != sounds(read, british=british)
    }
    assert wrong == {}


@pytest.mark.parametrize("name", CLASSES)
def test_what_is_expected_is_plain_words(name: str) -> None:
    signs = set("$€£%+=<>&@#~")
    assert [read for _, read in cases(name) if set(read) & signs or re.search(r"\d", read)] == []


def test_the_documentation_counts_the_texts_of_each_class() -> None:
    table = DOCS.read_text(encoding="utf-8")
    counts = {name: sum(name == each for each, _, _ in CASES) for name in CLASSES}
    assert [name for name in CLASSES if f"| {name} | {counts[name]} |" not in table] == []
    assert f"; {len(CASES)} texts" in table


def test_the_suite_covers_its_classes() -> None:
    assert len({(text, name) for name, text, _ in CASES}) == len(CASES) >= MIN_CASES
