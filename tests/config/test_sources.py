"""Settings: sources override each other in order, and unknown keys suggest the nearest."""

import os
from pathlib import Path
from typing import Any

import pytest

from antiphon.config import Settings
from antiphon.config.sources import LIBRARY_DEFAULTS, load_settings, set_library_defaults
from antiphon.errors import SettingsError


def test_later_sources_win(tmp_path: Path) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text('[server]\nport = 1\nhost = "a"\nlog_level = "error"\n')
    environment = {"ANTIPHON_SERVER_PORT": "2", "ANTIPHON_SERVER_HOST": "b"}
    flags = {"server.port": 3, "server.host": None}
    settings = load_settings(flags, file=file, environment=environment)
    assert (settings.server.port, settings.server.host) == (3, "b")
    assert settings.server.log_level == "error"
    assert load_settings(environment={"ANTIPHON_CONFIG": str(file)}).server.port == 1


def test_defaults_of_libraries_leave_the_environment_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in LIBRARY_DEFAULTS:
        monkeypatch.setenv(name, "")  # remembered, so that it is put back
        monkeypatch.delenv(name)
    set_library_defaults()
    assert {name: os.environ[name] for name in LIBRARY_DEFAULTS} == LIBRARY_DEFAULTS
    for name in LIBRARY_DEFAULTS:
        monkeypatch.setenv(name, "7")
    set_library_defaults()
    assert {os.environ[name] for name in LIBRARY_DEFAULTS} == {"7"}


def test_lists_and_tables_come_from_the_environment() -> None:
    environment = {
        "ANTIPHON_SERVER_API_KEYS": "one, two",
        "ANTIPHON_SPEECH_VOICE_ALIASES": '{"alloy": "heart"}',
    }
    settings = load_settings(environment=environment)
    assert settings.server.api_keys == ("one", "two")
    assert settings.speech.voice_aliases == {"alloy": "heart"}


@pytest.mark.parametrize(
    "given", [["image,video"], ["image", "video"], "image,video", ("image", "video")]
)
def test_modalities_stand_with_commas_or_one_by_one(given: object) -> None:
    settings = load_settings({"server.output_modalities": given}, environment={})
    assert settings.server.output_modalities == ("image", "video")
    with pytest.raises(SettingsError, match="output_modalities"):
        load_settings({"server.output_modalities": "image,smell"}, environment={})


@pytest.mark.parametrize(
    ("flags", "environment", "toml", "message"),
    [
        ({"server.prot": 1}, {}, "", r"flags: .*'server\.prot'.*Did you mean 'server\.port'"),
        ({}, {"ANTIPHON_SERVER_PROT": "1"}, "", "Did you mean 'ANTIPHON_SERVER_PORT'"),
        ({}, {}, "[server]\nprot = 1", r"antiphon\.toml: .*Did you mean 'server\.port'"),
        ({}, {}, "[servr]\nport = 1", r"Did you mean 'server\.port'"),
        ({}, {}, "port = 1", "unknown setting 'port'"),
        ({}, {}, "not toml", r"antiphon\.toml"),
        ({"server.port": 99999}, {}, "", r"server\.port: .*65535"),
        ({}, {"ANTIPHON_SERVER_PORT": "x"}, "", r"server\.port: .*integer"),
        ({}, {"ANTIPHON_SPEECH_VOICE_ALIASES": "x"}, "", "not a JSON object"),
        ({}, {"ANTIPHON_SERVER_API_KEYS": ""}, "", "ANTIPHON_SERVER_API_KEYS is empty"),
        ({}, {"ANTIPHON_SERVER_API_KEYS": " , "}, "", "ANTIPHON_SERVER_API_KEYS is empty"),
        ({"server.api_keys": [""]}, {}, "", r"server\.api_keys: .*a key is empty"),
        ({}, {}, '[server]\napi_keys = ["a", " "]', r"server\.api_keys: .*a key is empty"),
    ],
)
def test_mistakes_name_their_source_and_the_nearest_key(
    tmp_path: Path, flags: dict[str, Any], environment: dict[str, str], toml: str, message: str
) -> None:
    file = tmp_path / "antiphon.toml"
    file.write_text(toml)
    with pytest.raises(SettingsError, match=message):
        load_settings(flags, file=file, environment=environment)


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        Settings().server.port = 1  # type: ignore[misc]


def test_the_data_folder_is_the_users_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "/somewhere")
    assert load_settings(environment={}).data.folder == Path("/somewhere/antiphon")
    environment = {"ANTIPHON_DATA_DIR": "/elsewhere"}
    assert load_settings(environment=environment).data.folder == Path("/elsewhere")
    assert load_settings(environment={"ANTIPHON_DATA_DIR": "~/a"}).data.folder == Path.home() / "a"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert load_settings(environment={}).data.folder.is_relative_to(Path.home())


def test_models_that_share_a_server_do_not_take_all_that_is_left_of_a_gpu() -> None:
    alone = Settings().served()
    assert [each.gpu_memory_utilization for each in alone] == [0.9]
    both = Settings.model_validate({"models": {"more": ["toy"]}}).served()
    assert [each.gpu_memory_utilization for each in both] == [None, None]
    said = Settings.model_validate(
        {"model": {"gpu_memory_utilization": 0.4}, "models": {"more": ["toy"]}}
    ).served()
    assert [each.gpu_memory_utilization for each in said] == [0.4, None]


@pytest.mark.parametrize(
    ("source", "name", "rest"),
    [("chat=toy", "chat", "toy"), ("a=ORG/NAME@v1", "a", "ORG/NAME@v1"), ("toy", None, "toy")],
)
def test_a_source_can_bring_its_name(source: str, name: str | None, rest: str) -> None:
    first = load_settings({"model.source": source}, environment={}).model
    more = Settings.model_validate({"models": {"more": [source]}}).models.more[0]
    for found in (first, more):
        assert (found.name, found.source) == (name, rest)


def test_a_directory_with_an_equals_sign_is_a_source(tmp_path: Path) -> None:
    path = tmp_path / "lr=1"
    path.mkdir()
    model = load_settings({"model.source": str(path)}, environment={}).model
    assert (model.name, model.source) == (None, str(path))


@pytest.mark.parametrize(("text", "value"), [("off", "off"), ("-23", -23.0)])
def test_loudness_comes_from_the_environment(text: str, value: float | str) -> None:
    environment = {"ANTIPHON_SPEECH_LOUDNESS_LUFS": text}
    assert load_settings(environment=environment).speech.loudness_lufs == value


def test_further_models_inherit_only_what_is_set() -> None:
    usual, given = ({"models": {"more": ["toy"]}, "model": each} for each in ({}, {"max_slots": 3}))
    for settings, is_set in ((usual, False), (given, True)):
        assert all(
            ("max_slots" in each.model_fields_set) == is_set
            for each in Settings.model_validate(settings).served()
        )
