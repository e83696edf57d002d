"""Sentences of free prose: text files, chapters of ebooks, and examples of WordNet."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

MIN_WORDS, MAX_WORDS = 3, 25
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"']?\s+(?=[\"'A-Z])")
_ALLOWED = re.compile(r"[\"']?[A-Z][A-Za-z' ,;:!?\".-]*[.!?][\"']?")
_ABBREVIATION = re.compile(
    r"\b[A-Z]{2,}|\b[A-Za-z]\.|\.[A-Za-z]|\b(?:etc|vs|viz|St|Mr|Mrs|Dr|Esq)\b"
)
_EXAMPLE = re.compile(r'"([A-Za-z][^"]*)"')
_PLAIN_MARKS = str.maketrans({"“": '"', "”": '"', "‘": "'", "’": "'", "\u2060": "", "…": "..."})
_DASH = re.compile(r"\s*(?:--+|[—―])\s*")


def prose_sentences(folder: Path) -> Iterator[str]:
    """Yield the plain sentences of a folder: those without digits, markup or abbreviations.

    Args:
        folder: holds files of text (``.txt``, paragraphs between empty lines), chapters of ebooks
            (``.xhtml``), or WordNet's dictionary (``data.noun`` and others), in any subfolder.
    """
    for path in sorted(folder.rglob("*")):
        for paragraph in _paragraphs(path):
            joined = _DASH.sub(", ", " ".join(paragraph.translate(_PLAIN_MARKS).split()))
            for sentence in _SENTENCE_END.split(re.sub(r"\s+,", ",", joined)):
                is_plain = _ALLOWED.fullmatch(sentence) and not _ABBREVIATION.search(sentence)
                if is_plain and sentence.count('"') in (0, 2) and has_fitting_length(sentence):
                    yield sentence


def has_fitting_length(text: str) -> bool:
    """Return whether a text is neither too short nor too long for a recording."""
    return MIN_WORDS <= len(text.split()) <= MAX_WORDS


def _paragraphs(path: Path) -> Iterator[str]:
    match path.suffix:
        case ".txt":
            yield from re.split(r"\n\s*\n", path.read_text(encoding="utf-8"))
        case ".xhtml":
            chapter = _Chapter()
            chapter.feed(path.read_text(encoding="utf-8"))
            yield from chapter.paragraphs
        case ".noun" | ".verb" | ".adj" | ".adv" if path.stem == "data":
            for line in path.read_text(encoding="utf-8").splitlines():
                for example in _EXAMPLE.findall(line):
                    yield f"{example[0].upper()}{example[1:]}".rstrip(" ,;.") + "."


class _Chapter(HTMLParser):
    """The text of paragraphs."""

    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[str] = []
        self._is_inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del attrs
        if tag == "p":
            self._is_inside = True
            self.paragraphs.append("")

    def handle_endtag(self, tag: str) -> None:
        self._is_inside = self._is_inside and tag != "p"

    def handle_data(self, data: str) -> None:
        if self._is_inside:
            self.paragraphs[-1] += data
