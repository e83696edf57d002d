"""What a demonstration finds out about its server, and what it says if there is none."""

import pytest

pytest.importorskip("httpx", reason="httpx is not installed")

from antiphon.config import ModelSettings, Settings
from antiphon.demo.proxy import DemoUpstream
from antiphon.demo.speech_models import speech_models
from antiphon.errors import SettingsError
from tests.servers import start_server, wait_until


def test_it_lists_speech_models_and_their_voices() -> None:
    with start_server(Settings(model=ModelSettings(source="toy"))) as running:
        wait_until(lambda: running.state.is_ready)
        (found,) = speech_models(DemoUpstream(running.base_url))
    assert found.id == "toy"
    assert found.voices
    assert not found.cloning
    assert not found.voice_design


def test_without_a_server_it_says_how_to_start_one() -> None:
    with pytest.raises(SettingsError, match="antiphon serve"):
        speech_models(DemoUpstream("http://127.0.0.1:9"))
