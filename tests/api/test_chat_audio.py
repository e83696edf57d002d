"""Answers that are spoken while they are written, in the shape of OpenAI's chat audio."""

import base64
import json
from collections.abc import Generator
from typing import Any

import httpx
import numpy as np
import openai
import pytest

from tests.decoding import decoded, error_of
from tests.own_voices import VOICES
from tests.servers import RunningServer, wait_until

SAID = "Hello there. How are you?"
ANSWER = f"You said: {SAID}"
URL = "/v1/chat/completions"
ASKED: dict[str, Any] = {
    "model": "toy",
    "messages": [{"role": "user", "content": SAID}],
    "temperature": 0,
    "seed": 3,
    "modalities": ["text", "audio"],
    "audio": {"voice": "alto", "format": "pcm16"},
}


@pytest.fixture
def sdk(server: RunningServer) -> Generator[openai.OpenAI, None, None]:
    with openai.OpenAI(base_url=f"{server.base_url}/v1", api_key="any") as client:
        yield client


def streamed(client: httpx.Client, **members: Any) -> list[dict[str, Any]]:
    response = client.post(URL, json={**ASKED, "stream": True, **members})
    assert response.status_code == 200, response.text
    events = response.text.strip().split("\n\n")
    assert events.pop() == "data: [DONE]"
    return [json.loads(event.removeprefix("data: ")) for event in events]


def test_a_whole_answer_has_audio_and_its_transcript(sdk: openai.OpenAI) -> None:
    answer = sdk.chat.completions.create(**ASKED)
    audio = answer.choices[0].message.audio
    assert audio is not None
    assert audio.transcript == ANSWER
    samples = np.frombuffer(base64.b64decode(audio.data), "<i2")
    assert np.abs(samples).max() > 1000
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    num_frames = answer.usage.completion_tokens_details.audio_tokens
    assert num_frames is not None
    assert 0 < num_frames * 960 <= len(samples), "between sentences it is silent"


def test_a_stream_says_the_same_in_deltas(client: httpx.Client, sdk: openai.OpenAI) -> None:
    *chunks, usage = streamed(client, stream_options={"include_usage": True})
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0]["role"] == "assistant"
    told = [delta["audio"] for delta in deltas if "audio" in delta]
    assert len({each["id"] for each in told}) == 1
    assert "".join(each.get("transcript", "") for each in told) == ANSWER
    pieces = [base64.b64decode(each["data"]) for each in told if "data" in each]
    assert len(pieces) > 1
    whole = sdk.chat.completions.create(**ASKED).choices[0].message.audio
    assert whole is not None
    assert b"".join(pieces) == base64.b64decode(whole.data)
    assert "expires_at" in told[-1]
    assert chunks[-1]["choices"][0]["finish_reason"] == "stop"
    assert usage["usage"]["completion_tokens_details"]["audio_tokens"] > 0


def test_marks_are_written_and_not_said(sdk: openai.OpenAI) -> None:
    def spoken(said: str, **speakable: str) -> int:
        asked: Any = {**ASKED, "messages": [{"role": "user", "content": said}]}
        asked["audio"] = {**ASKED["audio"], "speakable": speakable}
        audio = sdk.chat.completions.create(**asked).choices[0].message.audio
        assert audio is not None
        assert audio.transcript == f"You said: {said}"
        return len(base64.b64decode(audio.data))

    marked = "the **end** `x` 😀"
    assert spoken(marked) == spoken("the end x")
    assert spoken(marked, emoji="say") == spoken("the end x grinning face")
    assert spoken(marked, markdown="as_written") > spoken(marked)


def test_nobody_hears_what_it_thinks(client: httpx.Client, sdk: openai.OpenAI) -> None:
    thinking: Any = {**ASKED, "extra_body": {"chat_template_kwargs": {"enable_thinking": True}}}
    plain, thought = (sdk.chat.completions.create(**each) for each in (ASKED, thinking))
    said, heard = plain.choices[0].message.audio, thought.choices[0].message.audio
    assert said is not None
    assert heard is not None
    assert (heard.transcript, len(heard.data)) == (said.transcript, len(said.data))
    assert thought.choices[0].message.model_dump()["reasoning_content"] == "Messages: 1."
    deltas = [chunk["choices"][0]["delta"] for chunk in streamed(client, enable_thinking=True)]
    assert "".join(each.get("reasoning_content", "") for each in deltas) == "Messages: 1."
    told = "".join(each.get("audio", {}).get("transcript", "") for each in deltas)
    assert told == ANSWER


@pytest.mark.parametrize("format", ["wav", "mp3"])
def test_files_of_other_formats(sdk: openai.OpenAI, format: str) -> None:
    answer = sdk.chat.completions.create(**{**ASKED, "audio": {"voice": "alto", "format": format}})
    audio = answer.choices[0].message.audio
    assert audio is not None
    samples, rate_hz = decoded(base64.b64decode(audio.data), format, 24_000)
    assert rate_hz == 24_000
    assert len(samples) > 24_000


def test_leaving_a_stream_stops_both_models(server: RunningServer, client: httpx.Client) -> None:
    body = {**ASKED, "stream": True, "logit_bias": {"256": -100}, "temperature": 1}
    with client.stream("POST", URL, json=body) as response:
        for line in response.iter_lines():
            if '"data"' in line:
                break
    wait_until(lambda: server.num_open == 0)


@pytest.mark.parametrize(
    ("members", "status", "param"),
    [
        ({"audio": None}, 400, "audio"),
        ({"modalities": ["text"]}, 400, "modalities"),
        ({"audio": {"voice": "nobody"}}, 404, "audio.voice"),
        ({"audio": {"voice": {"name": "alto"}}}, 400, "audio.voice.id"),
        ({"audio": {"voice": "alto", "format": "midi"}}, 400, "audio.format"),
        ({"audio": {"voice": "alto", "model": "mute"}}, 404, "audio.model"),
        ({"audio": {"speakable": {"urls": "sing"}}}, 400, "audio.speakable.urls"),
        ({"audio": {"speakable": {"songs": "say"}}}, 400, "audio.speakable.songs"),
        ({"n": 2}, 400, "n"),
        ({"logprobs": True}, 400, "logprobs"),
        ({"messages": [{"role": "assistant", "audio": {"id": "a"}}]}, 400, "messages.0.audio"),
    ],
)
def test_what_cannot_be_is_refused(
    client: httpx.Client, members: Any, status: int, param: str
) -> None:
    response = client.post(URL, json={**ASKED, **members})
    assert error_of(response, status)["param"] == param


OWN: dict[str, Any] = {
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
        answer = client.chat.completions.create(**OWN)
        silent = {name: OWN[name] for name in OWN if name not in ("modalities", "audio")}
        written = client.chat.completions.create(**silent)
    audio = answer.choices[0].message.audio
    assert audio is not None
    assert audio.transcript == written.choices[0].message.content
    samples = np.frombuffer(base64.b64decode(audio.data), "<i2")
    assert answer.usage is not None
    assert answer.usage.completion_tokens_details is not None
    assert answer.usage.completion_tokens_details.audio_tokens == len(samples) // 30 > 0
    with httpx.stream(
        "POST", f"{omni_server.base_url}{URL}", json={**OWN, "stream": True}
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
    response = httpx.post(f"{omni_server.base_url}{URL}", json={**OWN, "audio": audio})
    assert "Chelsie" in error_of(response, 404)["message"]
    audio = {"voice": "Ethan", "format": "wav", "model": "another"}
    response = httpx.post(f"{omni_server.base_url}{URL}", json={**OWN, "audio": audio})
    error_of(response, 404)
