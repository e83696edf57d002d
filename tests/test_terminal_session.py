"""The recorded terminal session of the documentation: of the commands of its script, and whole."""

import html
import re
import runpy
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = runpy.run_path(str(ROOT / "scripts" / "terminal_session.py"))
TEXT = "{http://www.w3.org/2000/svg}text"


def test_the_drawing_shows_the_commands_and_loads_nothing() -> None:
    drawing = SCRIPT["FILE"].read_text(encoding="utf-8")
    texts = [each.text or "" for each in ElementTree.fromstring(drawing).iter(TEXT)]
    shown = "".join(texts).replace("\xa0", " ")
    for command in SCRIPT["COMMANDS"]:
        assert html.unescape(command) in shown
    assert "is listening" in shown
    assert not re.search(r"url\((?!#)|@import|href", drawing)


@pytest.mark.parametrize(
    ("written", "lines"),
    [
        ("one\r\ntwo\r\n", ["one", "two"]),
        ("\x1b[?25l\r\x1b[2Kloading\r\x1b[2Kloaded\r\n\x1b[?25h", ["loaded"]),
        ("a\r\nb\r\n\x1b[1A\x1b[2K\x1b[1A\x1b[2Kc\r\n", ["c"]),
        ("\x1b[1mbold\x1b[0m\r\n\r\n", ["\x1b[1mbold\x1b[0m"]),
    ],
)
def test_what_is_erased_does_not_stay(written: str, lines: list[str]) -> None:
    assert SCRIPT["screen"](written) == lines
