"""``antiphon dev families`` counts what is there."""

import json
from pathlib import Path

from antiphon.families import toy
from antiphon.families.registry import FAMILIES
from tests.cli.conftest import Run


def test_every_family_is_counted(run: Run) -> None:
    told = {each["name"]: each for each in json.loads(run("dev", "families", "--json").stdout)}
    assert [*told] == [*FAMILIES]
    lines = [
        line
        for path in Path(toy.__file__).parent.glob("*.py")
        for line in path.read_text(encoding="utf-8").split("\n")
        if line.strip()
    ]
    assert told["toy"]["lines"] == len(lines)
    assert told["toy"]["tasks"] == ["speech", "image", "video", "chat"]
    assert "hibari" in run("dev", "families").stdout
