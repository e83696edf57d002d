"""The rules of prose that can be checked by a machine."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import antiphon

ROOT = Path(antiphon.__file__).parent
BENCH = ROOT.parent / "bench" / "antiphon_bench"
DOCS = [
    *sorted((ROOT.parent / "docs").glob("*.md")),
    *sorted(ROOT.parent.glob("*.md")),
    *sorted((ROOT.parent / "training").rglob("*.md")),
    *sorted((ROOT.parent / "examples").glob("*.py")),
    *sorted((ROOT.parent / "scripts").glob("*.py")),
]
ENTRY = re.compile(r"^ {4,}\w+: +(.*)$", re.MULTILINE)
NOT_A_NOUN = re.compile(
    r"(of|that|which|who|whose|what|see|by|in|on|where|when|at|for|from|to|with|without|as|if"
    r"|how|likewise|than|until|since|after|before|beside|between)\b",
    re.IGNORECASE,
)
NOT_A_HEADING = re.compile(r"(What|How|Which|Where|Whose)\b")
RETIRED = re.compile(
    r"\b(tells?|told|says?|said|hears?|heard|whoever|nobody|somebody|those who|at the door"
    r"|likewise|company)\b",
    re.IGNORECASE,
)
# Words of interfaces: the command ``antiphon say``, values of settings, members of reports, methods
# of Python's files, and prompts of users.
USED_BY_PROTOCOLS = re.compile(
    r"antiphon say|``say``|`say`|\bsay\.py\b|say -|-k say|cli\.say\b|SayFlags, say|def say\(flags"
    r"|[\"'](say|tell|heard)[\"']|`tell`|; say: by|\btell\(|\bYou said\b|b\"said\""
    r"|Say hello|Tell me about"
)
SPOKEN = {"antiphon_bench/reference.py"}
"""Files of sentences that models speak, and of words that the text front end reads."""


def files() -> Iterator[Path]:
    yield from (*sorted(ROOT.rglob("*.py")), *sorted(BENCH.rglob("*.py")))


@lru_cache(maxsize=1)
def docstrings(path: Path) -> tuple[tuple[ast.AST, str], ...]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    found = []
    while waiting:  # expressions hold no docstrings
        node = waiting.pop()
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            found.append((node, text))
        waiting += (each for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr))
    return tuple(found)


def entries_without_noun(path: Path) -> Iterator[str]:
    for _, text in docstrings(path):
        for name in ("Args:", "Attributes:"):
            if name in text:
                section = text.partition(name)[2]
                section = re.split(r"^\S.*:$", section, maxsplit=1, flags=re.MULTILINE)[0]
                for entry in ENTRY.finditer(section):
                    if NOT_A_NOUN.match(entry[1]):
                        yield entry[0].strip()


BAD = '''"""How it works.

Args:
    size: of the batch.
    rate_hz: sample rate.
    text: likewise.
"""
# nobody is told
'''


def headings_without_noun(path: Path) -> list[str]:
    return [
        text.splitlines()[0]
        for node, text in docstrings(path)
        if isinstance(node, ast.Module) and NOT_A_HEADING.match(text)
    ]


def retired_words(path: Path) -> list[str]:
    if path.as_posix().endswith(tuple(SPOKEN)):
        return []
    return RETIRED.findall(USED_BY_PROTOCOLS.sub("", path.read_text(encoding="utf-8")))


def test_prose_is_plain_in_the_package() -> None:
    found = {
        path.relative_to(ROOT.parent).as_posix(): examples
        for path in files()
        if (
            examples := [
                *entries_without_noun(path),
                *headings_without_noun(path),
                *retired_words(path),
            ]
        )
    }
    assert found == {}


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_prose_is_plain_in_the_docs(path: Path) -> None:
    assert retired_words(path) == []


def test_rules_find_what_they_forbid(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(BAD)
    assert [*entries_without_noun(bad)] == ["size: of the batch.", "text: likewise."]
    assert headings_without_noun(bad) == ["How it works."]
    assert Counter(retired_words(bad)) == {"likewise": 1, "nobody": 1, "told": 1}
