"""`antiphon voices` and `antiphon models` tell what the code declares."""

import json
import re
from importlib.metadata import EntryPoint, EntryPoints

import pytest

from antiphon import Antiphon
from antiphon.families import installed
from antiphon.families.registry import FAMILIES
from tests.cli.conftest import Run


def test_models_lists_every_family(run: Run) -> None:
    rows = json.loads(run("models", "--json").stdout)
    assert [row["name"] for row in rows] == list(FAMILIES)
    table = run("models").stdout
    assert all(name in table for name in FAMILIES)
    needy = [row["name"] for row in rows if row["needs_checkpoint"]]
    first_needy = min(table.index(f"\n{name} ") for name in needy)
    built_in = [row["name"] for row in rows if not row["needs_checkpoint"]]
    assert all(table.index(f"\n{name} ") < first_needy for name in built_in)
    assert table.count("built in") == len(built_in)


def test_models_of_packages_are_listed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = EntryPoint("wagtail", "voice_wagtail:CHECKPOINT", "antiphon.models")
    monkeypatch.setattr(installed, "installed_models", lambda: EntryPoints([entry]))
    assert re.search(r"\nwagtail .*installed", run("models").stdout)


def test_voices_are_those_that_the_model_speaks_with(run: Run) -> None:
    with Antiphon.load("toy") as antiphon:
        expected = [voice.id for voice in antiphon.voices]
    rows = json.loads(run("voices", "--model", "toy", "--json").stdout)
    assert [row["id"] for row in rows] == expected
    table = run("voices", "--model", "toy").stdout
    assert all(voice in table for voice in expected)
