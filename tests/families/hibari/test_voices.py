"""Voices are those whose files are here; nothing is fetched."""

import shutil
import urllib.request
from pathlib import Path

import pytest
from hibari.voices import VOICES, voice_path

from antiphon.contracts.family import LoadContext
from antiphon.contracts.types import SpeechRequest
from antiphon.families.hibari.generator import HibariGenerator
from antiphon.families.hibari.prompt import HibariPrompter
from antiphon.families.hibari.voices import installed_voices


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty voice cache on a machine without a network."""

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was downloaded")

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    monkeypatch.setenv("HIBARI_HOME", str(tmp_path))
    return tmp_path


def put_emma(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a second voice: the bundled network under the other's name and checksum."""
    shutil.copy(voice_path("heart"), cache / VOICES["emma"]["file"])
    monkeypatch.setitem(VOICES["emma"], "sha256", VOICES["heart"]["sha256"])


def test_the_package_brings_one_voice() -> None:
    assert list(installed_voices()) == ["heart"]
    capabilities = HibariPrompter(LoadContext()).capabilities
    assert [voice.id for voice in capabilities.voices] == ["heart"]
    assert capabilities.sample_rate_hz == 24_000
    assert not capabilities.instructions


def test_a_voice_in_the_cache_is_offered_and_speaks(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_emma(cache, monkeypatch)
    prompter, generator = HibariPrompter(LoadContext()), HibariGenerator(LoadContext())
    heart, emma = prompter.capabilities.voices
    assert (heart.id, heart.language) == ("heart", "en-US")
    assert (emma.id, emma.language) == ("emma", "en-GB")
    request = SpeechRequest("I can't dance.")
    british = prompter.build(request, emma, 1)
    assert british.data.sentences != prompter.build(request, heart, 1).data.sentences
    assert next(generator.generate(british)).duration_s > 0
    generator.close()


def test_a_damaged_voice_is_left_out(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    (cache / VOICES["emma"]["file"]).write_bytes(b"half a download")
    assert list(installed_voices()) == ["heart"]
    assert "emma" in caplog.text
