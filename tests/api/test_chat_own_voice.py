"""Answers over HTTP that the model which writes them says with a voice of its own."""

import base64
import json
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from tests.decoding import error_of
from tests.own_voices import VOICES
from tests.servers import RunningServer

pytest.importorskip("torch", reason="needs the extra 'torch'")

URL = "/v1/chat/completions"
ASKED: dict[str, Any] = {
    "model": "omni",
    "messages": [{"role": "user", "content": "How are you?"}],
    "temperature": 0,
    "seed": 3,
    "max_tokens": 5,
    "modalities": ["text", "audio"],
    "audio": {"voice": "Ethan", "format": "pcm16"},
}


def test_an_answer_is_said_by_the_model_itself(omni_server: RunningServer) -> None:
    with openai.OpenAI(base_url=f"{omni_server.base_url}/v1", api_key="any") as client:
        answer = client.chat.completions.create(**ASKED)
        silent = {name: ASKED[name] for name in ASKED if name not in ("modalities", "audio")}
        written = client.chat.completions.create(**silent)
    audio = answer.choices[0].message.audio
    assert audio is not None
    assert audio.transcript == written.choices[0].message.content
    samples = np.frombuffer(base64.b64decode(audio.data), "<i2")
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.audio_tokens == len(samples) // 30 > 0
    with httpx.stream(
        "POST", f"{omni_server.base_url}{URL}", json={**ASKED, "stream": True}
    ) as response:
        *events, done = [line for line in response.iter_lines() if line]
    assert done == "data: [DONE]"
    deltas = [json.loads(each.removeprefix("data: "))["choices"][0]["delta"] for each in events]
    told = [each["audio"] for each in deltas if "audio" in each]
    assert "".join(each.get("transcript", "") for each in told) == audio.transcript
    pieces = [base64.b64decode(each["data"]) for each in told if "data" in each]
    assert len(pieces) > 1
    assert b"".join(pieces) == base64.b64decode(audio.data)


def test_voices_are_listed_and_others_refused(omni_server: RunningServer) -> None:
    (model,) = httpx.get(f"{omni_server.base_url}/v1/models").json()["data"]
    told = model["chat_voice"]
    assert told["instructions"].startswith("You are ")
    assert {**told, "instructions": ""} == {
        "sample_rate": 24000,
        "voices": VOICES,
        "instructions": "",
    }
    audio = {"voice": "nobody", "format": "wav"}
    response = httpx.post(f"{omni_server.base_url}{URL}", json={**ASKED, "audio": audio})
    assert "Chelsie" in error_of(response, 404)["message"]
    audio = {"voice": "Ethan", "format": "wav", "model": "another"}
    response = httpx.post(f"{omni_server.base_url}{URL}", json={**ASKED, "audio": audio})
    error_of(response, 404)
