"""Vapi's custom voice: a text and a rate in, samples out."""

import logging
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from tests.servers import start_server

URL = "/v1/vapi/speech"


def ask(client: httpx.Client, url: str = URL, **message: Any) -> httpx.Response:
    body = {"type": "voice-request", "text": "Hello there.", "call": {"id": "1"}, **message}
    return client.post(url, json={"message": body})


@pytest.mark.parametrize("rate_hz", [8000, 16000, 22050, 24000])
def test_samples_come_at_the_rate_that_is_asked_for(client: httpx.Client, rate_hz: int) -> None:
    answer = ask(client, sampleRate=rate_hz)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/octet-stream"
    samples = np.frombuffer(answer.content, "<i2")
    assert len(samples) == pytest.approx(len("Hello there.") * 0.08 * rate_hz, abs=2)
    assert np.abs(samples).max() > 1000


def test_the_address_says_who_speaks(client: httpx.Client) -> None:
    assert ask(client, f"{URL}?voice=alto").content != ask(client).content
    assert len(ask(client, f"{URL}?speed=2").content) < len(ask(client).content)
    assert ask(client, f"{URL}?voice=nobody").status_code == 404
    for language, status in (("de-AT", 200), ("auto", 200), ("klingon", 400)):
        assert ask(client, f"{URL}?language={language}").status_code == status


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"text": " "}, "message.text"),
        ({"text": None}, "message.text"),
        ({"text": "long " * 30_000}, "message.text"),
        ({"sampleRate": 1}, "message.sampleRate"),
        ({"type": "status-update"}, "message.type"),
    ],
)
def test_what_is_wrong_is_told_with_its_field(
    client: httpx.Client, message: dict[str, Any], param: str
) -> None:
    answer = ask(client, **message)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == param
    assert "'input'" not in error["message"]


def test_its_secret_is_the_key(caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(
        model=ModelSettings(source="toy"), server=ServerSettings(api_keys=("sk-test",))
    )
    with start_server(settings) as running, caplog.at_level(logging.DEBUG):
        for secret, status in [("sk-test", 200), ("sk-other", 401), ("", 401)]:
            with httpx.Client(
                base_url=running.base_url, headers={"X-VAPI-SECRET": secret}
            ) as client:
                assert ask(client).status_code == status
    assert "sk-other" not in caplog.text
