"""What a speech request that names neither format nor voice gets is a setting."""

import base64
import logging
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, Settings, SpeechSettings
from tests.servers import RunningServer, server_of, start_server

URL = "/v1/audio/speech"
WAV = SpeechSettings(default_response_format="wav", default_voice="Alto")


server = server_of(Settings(model=ModelSettings(source="toy"), speech=WAV))


def spoken(server: RunningServer, **fields: Any) -> httpx.Response:
    answer = httpx.post(f"{server.base_url}{URL}", json={"input": "Hi.", "seed": 1, **fields})
    assert answer.status_code == 200, answer.text
    return answer


@pytest.mark.parametrize("fields", [{}, {"response_format": None}, {"stream": False}])
def test_the_format_is_the_server_s(server: RunningServer, fields: dict[str, Any]) -> None:
    answer = spoken(server, **fields)
    assert answer.headers["content-type"] == "audio/wav"
    assert answer.content.startswith(b"RIFF")
    assert spoken(server, response_format="mp3").headers["content-type"] == "audio/mpeg"


def test_items_of_a_batch_have_it_too(server: RunningServer) -> None:
    url = f"{server.base_url}{URL}/batch"
    (result,) = httpx.post(url, json={"items": [{"input": "Hi."}]}).json()["results"]
    assert base64.b64decode(result["audio_data"]).startswith(b"RIFF")


@pytest.mark.parametrize("voice", [None, "default", "alloy", "ALTO"])
def test_the_voice_is_the_server_s(server: RunningServer, voice: str | None) -> None:
    pcm = {"response_format": "pcm"}
    assert spoken(server, voice=voice, **pcm).content == spoken(server, voice="alto", **pcm).content
    assert spoken(server, voice="sine", **pcm).content != spoken(server, **pcm).content


def test_a_voice_that_no_model_has_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    speech = SpeechSettings(default_voice="Vivian")
    settings = Settings(model=ModelSettings(source="toy"), speech=speech)
    with caplog.at_level(logging.WARNING), start_server(settings) as running:
        assert spoken(running).headers["content-type"] == "audio/mpeg"
    assert "no served model has the voice 'Vivian'" in caplog.text
