"""What a demonstration finds out about its server, and what it says if there is none."""

from functools import partial
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, Settings
from antiphon.demo.proxy import DemoUpstream
from antiphon.demo.speech_models import chat_models, speech_models
from antiphon.errors import SettingsError
from tests.servers import start_server


def test_it_lists_speech_models_and_their_voices() -> None:
    with start_server(Settings(model=ModelSettings(source="toy"))) as running:
        (found,) = speech_models(DemoUpstream(running.base_url))
        assert chat_models(DemoUpstream(running.base_url)) == ["toy"]
    assert found.id == "toy"
    assert found.voices
    assert not found.cloning
    assert not found.voice_design


def test_without_a_server_it_says_how_to_start_one() -> None:
    with pytest.raises(SettingsError, match="antiphon serve"):
        speech_models(DemoUpstream("http://127.0.0.1:9"))


def test_models_that_do_not_speak_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    speaking = {
        **{"id": "a", "tasks": ["text-to-speech"], "sample_rate": 24000, "languages": []},
        **{"instructions": True, "cloning": True, "voice_design": False},
    }
    writing = {"id": "b", "tasks": ["text-generation"]}
    listed, keys = [speaking, writing], []

    def answer(request: httpx.Request) -> httpx.Response:
        keys.append(request.headers["authorization"])
        data: list[Any] = [{"id": "v", "name": "V"}]
        if request.url.path == "/v1/models":
            data = listed
        else:
            assert request.url.params["model"] == "a"
        return httpx.Response(200, json={"data": data})

    client = partial(httpx.Client, transport=httpx.MockTransport(answer))
    monkeypatch.setattr("antiphon.demo.speech_models.httpx.Client", client)
    (found,) = speech_models(DemoUpstream("http://server", "secret"))
    assert (found.id, found.cloning, found.voices) == ("a", True, (("V", "v"),))
    assert set(keys) == {"Bearer secret"}
    listed.remove(speaking)
    with pytest.raises(SettingsError, match="serves no speech model"):
        speech_models(DemoUpstream("http://server", "secret"))
