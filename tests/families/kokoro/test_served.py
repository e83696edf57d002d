"""Served by the ONNX layout, it answers clients of Kokoro-FastAPI as that does."""

import base64
import json
from collections.abc import Generator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, Settings
from tests.servers import RunningServer, start_server

TEXT = "She can't dance in the bath."


@pytest.fixture(scope="module")
def server(exported: Path) -> Generator[RunningServer, None, None]:
    settings = ModelSettings(source=str(exported), device="cpu")
    with start_server(Settings(model=settings)) as running:
        yield running


def heard(client: httpx.Client, **fields: Any) -> bytes:
    body = {"model": "kokoro", "input": TEXT, "voice": "af_heart", "response_format": "pcm"}
    answer = client.post("/v1/audio/speech", json={**body, **fields})
    assert answer.status_code == 200, answer.text
    return answer.content


def test_its_voices_are_listed_by_their_names(client: httpx.Client) -> None:
    voices = [each["id"] for each in client.get("/v1/audio/voices").json()["voices"]]
    chinese = ["zf_xiaoxiao"] if find_spec("misaki") else []
    assert voices == ["af_heart", "af_sky", "am_adam", "bf_emma", *chinese]


def test_weights_of_mixes_are_relative(client: httpx.Client) -> None:
    assert heard(client, voice="AF_HEART(2)+af_sky(2)") == heard(client, voice="af_heart+af_sky")
    assert heard(client, model="tts-1", voice="default") == heard(client)


def test_the_language_is_the_voice_s_or_the_request_s(client: httpx.Client) -> None:
    british = heard(client, voice="bf_emma")
    assert heard(client, voice="bf_emma", lang_code="b") == british
    assert heard(client, voice="bf_emma", lang_code="a") != british


def test_captions_come_with_the_audio(client: httpx.Client) -> None:
    body = {"input": TEXT, "voice": "af_heart+af_sky", "response_format": "pcm"}
    answer = client.post("/dev/captioned_speech", json=body)
    lines = [json.loads(line) for line in answer.text.splitlines()]
    words = [word for line in lines for word in line["timestamps"]]
    assert [each["word"] for each in words] == TEXT.split()
    times = [time for each in words for time in (each["start_time"], each["end_time"])]
    assert times == sorted(times)
    audio = b"".join(base64.b64decode(line["audio"]) for line in lines)
    assert audio == heard(client, voice="af_heart+af_sky")
