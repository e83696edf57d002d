"""`antiphon voices` lists, adds and deletes voices in a folder and at a server, with one result."""

import json
from collections.abc import Callable, Generator
from pathlib import Path

import pytest

from antiphon.config import DataSettings, ModelSettings, ServerSettings, Settings
from tests.cli.conftest import Run
from tests.recordings import RECORDING, wav
from tests.servers import start_server

KEY = "sesame"


@pytest.fixture
def recording(tmp_path: Path) -> str:
    (tmp_path / "ann.wav").write_bytes(RECORDING)
    return str(tmp_path / "ann.wav")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("voices")


@pytest.fixture(scope="module")
def url(checkpoint: Callable[..., Path], folder: Path) -> Generator[str, None, None]:
    settings = Settings(
        model=ModelSettings(source=str(checkpoint("tiny", "base")), device="cpu"),
        server=ServerSettings(api_keys=(KEY,)),
        data=DataSettings(dir=folder),
    )
    with start_server(settings) as running:
        yield running.base_url


def test_a_folder_and_its_server_have_the_same_voices(
    run: Run, recording: str, url: str, folder: Path
) -> None:
    here, there = ("--data-dir", str(folder)), ("--url", f"{url}/v1", "--api-key", KEY)
    texts = ("--ref-text", "I said this.", "--consent", "yes", "--description", "calm")
    for place, other in ((here, there), (there, here)):
        added = run("voices", "add", recording, "--name", "Ann Ö", *texts, *place)
        assert added.exit_code == 0, added.stderr
        (voice,) = json.loads(run("voices", "list", "--json", *place).stdout)
        assert json.loads(run("voices", "list", "--json", *other).stdout) == [voice]
        assert (voice["name"], voice["ref_text"], voice["consent"], voice["mime_type"]) == (
            *("Ann Ö", "I said this.", "yes"),
            "audio/wav",
        )
        assert added.stdout == f"Ann Ö: {voice['id']}\n"
        assert "Ann" in run("voices", "list", *other).stdout
        assert run("voices", "delete", "ann ö", *other).stdout == "Deleted Ann Ö\n"
        assert json.loads(run("voices", "list", "--json", *place).stdout) == []


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a/b", RECORDING, "may not contain"),
        ("Alloy", RECORDING, "reserved"),
        ("Ann", b"?", "not a readable"),
        ("Ann", wav(0.5), "too short"),
        ("Ann", b"", "Missing"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_mistakes_are_told_in_one_line(
    run: Run, url: str, folder: Path, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    (tmp_path / "a.wav").write_bytes(content)
    for place in (("--data-dir", str(folder)), ("--url", url, "--api-key", KEY)):
        done = run("voices", "add", str(tmp_path / "a.wav"), "--name", name, *place)
        assert done.exit_code == 1
        line = done.stderr.splitlines()[-1]  # after the log of the server, if it shows
        assert line.startswith("antiphon: ")
        if content or place[0] == "--url":
            assert words in line


def test_what_is_not_there_is_told(run: Run, url: str, folder: Path) -> None:
    place = ("--data-dir", str(folder))
    assert "There is no voice 'Bob'" in run("voices", "delete", "Bob", *place).stderr
    assert "Cannot read" in run("voices", "add", "nowhere.wav", "--name", "A", *place).stderr
    remote = ("--url", url)
    assert "--api-key" in run("voices", "list", *remote).stderr
    assert "No API key" in run("voices", "delete", "Bob", *remote).stderr
    assert "does not answer" in run("voices", "list", "--url", "http://127.0.0.1:1").stderr
