"""`antiphon voices` and `antiphon models` tell what the code declares."""

import json

from antiphon import Antiphon
from antiphon.families.registry import FAMILIES
from tests.cli.conftest import Run


def test_models_lists_every_family(run: Run) -> None:
    rows = json.loads(run("models", "--json").stdout)
    assert [row["name"] for row in rows] == list(FAMILIES)
    table = run("models").stdout
    assert all(name in table for name in FAMILIES)


def test_voices_are_those_that_the_model_speaks_with(run: Run) -> None:
    with Antiphon.load("toy") as antiphon:
        expected = [voice.id for voice in antiphon.voices]
    rows = json.loads(run("voices", "--model", "toy", "--json").stdout)
    assert [row["id"] for row in rows] == expected
    table = run("voices", "--model", "toy").stdout
    assert all(voice in table for voice in expected)
