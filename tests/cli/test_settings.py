"""`antiphon config` prints a file that gives the same settings, and the names of all variables."""

import re
from pathlib import Path

import pytest

from antiphon.cli.settings import as_toml
from antiphon.config import ModelSettings, ServerSettings, Settings, SpeechSettings
from antiphon.config.sources import load_settings
from tests.cli.conftest import Run

UNUSUAL = Settings(
    model=ModelSettings(source="a \"quoted\" path\\with a 'name'", name="größer", max_slots=3),
    speech=SpeechSettings(voice_aliases={"a/b c": "default", "alloy": "heart"}, model_aliases={}),
    server=ServerSettings(port=0, cors_origins=("http://one", "http://two"), log_level="error"),
)


@pytest.mark.parametrize("settings", [Settings(), UNUSUAL])
def test_what_is_printed_gives_the_same_settings(settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text("\n".join(as_toml(settings)), encoding="utf-8")
    assert load_settings(file=file, environment={}) == settings


def test_the_variables_that_it_names_are_all_there_are(run: Run) -> None:
    told = set(re.findall(r"^# (ANTIPHON_\w+)", run("config").stdout, re.MULTILINE))
    known = {
        f"ANTIPHON_{section}_{name}".upper()
        for section, field in Settings.model_fields.items()
        for name in type(field.default).model_fields
    }
    assert told == known


def test_keys_are_not_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER_API_KEYS", "sesame,rosebud")
    printed = run("config").stdout
    assert "# api_keys = [2 not shown]" in printed
    assert "sesame" not in printed
    assert "rosebud" not in printed


def test_a_file_and_the_environment_are_taken_in(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('[server]\nport = 1234\nhost = "here"\n')
    monkeypatch.setenv("ANTIPHON_SERVER_PORT", "4321")
    printed = run("config", "--config", str(file)).stdout
    assert "port = 4321" in printed
    assert 'host = "here"' in printed
