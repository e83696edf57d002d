"""The rules of prose that can be checked by a machine, with what is still to be rewritten."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import antiphon

ROOT = Path(antiphon.__file__).parent
BENCH = ROOT.parent / "bench" / "antiphon_bench"
DOCS = [*sorted((ROOT.parent / "docs").glob("*.md")), ROOT.parent / "README.md"]
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
# A protocol's or an interface's own words: WebVTT cues, the `say` command, ``antiphon say``.
USED_BY_PROTOCOLS = re.compile(r"antiphon say|``say``|`say`|\bsay\.py\b|say -")


def files() -> Iterator[Path]:
    yield from (*sorted(ROOT.rglob("*.py")), *sorted(BENCH.rglob("*.py")))


def part_of(path: Path) -> str:
    if path.is_relative_to(BENCH):
        return "bench"
    parts = path.relative_to(ROOT).parts
    depth = 2 if parts[0] == "families" else 1
    return "/".join(parts[:depth]).removesuffix(".py")


def docstrings(path: Path) -> Iterator[tuple[ast.AST, str]]:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, documented) and (text := ast.get_docstring(node)):
            yield node, text


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
    return RETIRED.findall(USED_BY_PROTOCOLS.sub("", path.read_text(encoding="utf-8")))


# What is left to be rewritten: entries without a noun, headings without one, retired words. These
# numbers may only fall; a part that is not listed has none.
LEFT: dict[str, tuple[int, int, int]] = {
    "audio": (0, 0, 1),
    "bench": (0, 0, 12),
    "cli": (0, 0, 6),
    "config": (0, 0, 6),
    "demo": (0, 0, 1),
    "families/causal_lm": (0, 0, 15),
    "families/cosyvoice3": (0, 0, 25),
    "families/fish_speech": (0, 0, 10),
    "families/kokoro": (0, 0, 13),
    "families/mimo_audio": (0, 0, 20),
    "families/qwen3_tts": (0, 0, 1),
    "families/toy": (0, 0, 2),
    "family_check": (0, 0, 5),
    "offline": (3, 0, 0),
    "pipeline": (0, 0, 3),
    "storage": (0, 0, 3),
    "text": (0, 0, 1),
}
LEFT_IN_DOCS = {
    "api.md": 6,
    "chat.md": 4,
    "cosyvoice3.md": 2,
    "dynamo.md": 4,
    "fish-speech.md": 1,
    "kokoro.md": 1,
    "piper.md": 1,
    "qwen2-5-omni.md": 1,
    "settings.md": 27,
    "streaming.md": 4,
    "voxcpm2.md": 1,
}


def test_prose_is_plain_in_the_package() -> None:
    found: dict[str, list[int]] = {}
    examples: dict[str, list[str]] = {}
    for path in files():
        entries, headings = [*entries_without_noun(path)], headings_without_noun(path)
        words = retired_words(path)
        counts = found.setdefault(part_of(path), [0, 0, 0])
        for at, each in enumerate((entries, headings, words)):
            counts[at] += len(each)
        examples.setdefault(part_of(path), []).extend([*entries, *headings, *words])
    too_many = {
        part: (*counts, examples[part][-9:])
        for part, counts in found.items()
        if any(num > most for num, most in zip(counts, LEFT.get(part, (0, 0, 0)), strict=True))
    }
    assert not too_many


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_prose_is_plain_in_the_docs(path: Path) -> None:
    assert len(retired_words(path)) <= LEFT_IN_DOCS.get(path.name, 0)


def test_nothing_is_listed_that_does_not_exist() -> None:
    assert set(LEFT) <= {part_of(path) for path in files()}
    assert set(LEFT_IN_DOCS) <= {path.name for path in DOCS}


def test_rules_find_what_they_forbid(tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text(BAD)
    assert [*entries_without_noun(bad)] == ["size: of the batch.", "text: likewise."]
    assert headings_without_noun(bad) == ["How it works."]
    assert Counter(retired_words(bad)) == {"likewise": 1, "nobody": 1, "told": 1}
