"""Voices of one's own where several models are served, of which only some clone voices."""

import json
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, ModelsSettings, Settings
from tests.api.speech_talks import opened
from tests.api.speech_talks import say as say_text
from tests.decoding import error_of
from tests.recordings import RECORDING
from tests.servers import RunningServer, start_server, wait_until
from tests.sockets import audio, connected, messages

VOICES, SPEECH = "/v1/audio/voices", "/v1/audio/speech"


@pytest.fixture(scope="module")
def server(
    checkpoint: Callable[[Any, str], Path],
) -> Generator[RunningServer, None, None]:
    clone = ModelSettings(source=str(checkpoint("tiny", "base")), name="clone", device="cpu")
    settings = Settings(model=ModelSettings(source="toy"), models=ModelsSettings(more=(clone,)))
    with start_server(settings) as server:
        yield server


@pytest.fixture
def ann(client: httpx.Client) -> Generator[str, None, None]:
    """Upload a voice whose name tells that it is another vendor's, which clients also send."""
    name = 5 * "anna"
    assert uploaded(client, name).status_code == 200
    yield name
    assert client.delete(f"{VOICES}/{name}").status_code == 200


def uploaded(client: httpx.Client, name: str, url: str = VOICES, **fields: str) -> httpx.Response:
    data = {"name": name, "ref_text": "I said this.", **fields}
    return client.post(url, data=data, files={"audio_sample": ("a.wav", RECORDING)})


@pytest.mark.parametrize(
    ("url", "fields"),
    [(VOICES, {}), (VOICES, {"model": "clone"}), (f"{VOICES}?model=clone", {})],
)
def test_a_voice_is_read_by_a_model_that_clones(
    client: httpx.Client, url: str, fields: dict[str, str]
) -> None:
    made = uploaded(client, "ann", url, **fields)
    assert made.status_code == 200, made.text
    id = made.json()["id"]
    try:
        listed = client.get(VOICES).json()
        assert [each["model"] for each in listed["data"] if each["id"] == id] == ["clone"]
        assert id in {each["id"] for each in listed["voices"]}
        other = client.get(VOICES, params={"model": "toy"}).json()["voices"]
        assert id not in {each["id"] for each in other}
        ours = client.get(VOICES, params={"model": "clone"}).json()["voices"]
        assert id in {each["id"] for each in ours}
        assert client.get(f"{VOICES}/ann").json()["id"] == id
        body = {"input": "Hello.", "voice": "ann", "max_new_tokens": 4}
        assert client.post(SPEECH, json={**body, "model": "clone"}).status_code == 200
        error = error_of(client.post(SPEECH, json={**body, "model": "toy"}), 400)
        assert "Set 'model' to one that does (clone)" in error["message"]
    finally:
        assert client.delete(f"{VOICES}/ann").json()["id"] == id
    assert id not in client.get(VOICES).text


def test_a_model_that_clones_none_is_refused_by_name(client: httpx.Client) -> None:
    for url, fields in ((VOICES, {"model": "toy"}), (f"{VOICES}?model=toy", {})):
        error = error_of(uploaded(client, "ann", url, **fields), 400)
        assert (error["param"], error["code"]) == ("model", "voice_not_supported")
        assert error["message"].endswith("Models that do: clone.")
    assert error_of(uploaded(client, "ann", model="nobody"), 404)["param"] == "model"


def test_a_voice_of_any_model_is_described(client: httpx.Client) -> None:
    assert client.get(f"{VOICES}/alto").json()["model"] == "toy"
    assert client.get(f"{VOICES}/alto?model=toy").json()["model"] == "toy"
    error_of(client.get(f"{VOICES}/alto?model=clone"), 404)


def test_another_service_s_clients_upload_voices_too(client: httpx.Client) -> None:
    files = {"files": ("a.wav", RECORDING)}
    made = client.post("/v1/voices/add", data={"name": "bea"}, files=files)
    assert made.status_code == 200, made.text
    id = made.json()["voice_id"]
    assert id in client.get("/v1/voices").text
    assert client.delete(f"/v1/voices/{id}").status_code == 200


SHORT = {"input": "Hello.", "response_format": "pcm", "seed": 1, "max_new_tokens": 6}
TURNS = [{"text": "Hello.", "voice_id": "{ann}"}]
POSTED: list[tuple[str, dict[str, Any]]] = [
    (SPEECH, {**SHORT, "voice": "{ann}"}),
    (SPEECH, {**SHORT, "voice": "{ann}", "model": "tts-1"}),
    (SPEECH, {**SHORT, "voice": "{ann}", "model": "default", "stream_format": "sse"}),
    (f"{SPEECH}/batch", {"items": [SHORT], "voice": "{ann}"}),
    (f"{SPEECH}/batch", {"items": [{**SHORT, "voice": "{ann}"}]}),
    ("/dev/captioned_speech", {**SHORT, "voice": "{ann}", "return_timestamps": False}),
    ("/dev/dialogue", {"turns": TURNS, "max_new_tokens": 6}),
    ("/v1/text-to-speech/{ann}", {"text": "Hello."}),
    ("/v1/text-to-speech/{ann}/with-timestamps", {"text": "Hello.", "model_id": "eleven_v3"}),
    ("/v1/text-to-dialogue", {"inputs": TURNS}),
    ("/v1/speak?model={ann}", {"text": "Hello."}),
    ("/v1/vapi/speech?voice={ann}", {"message": {"type": "voice-request", "text": "Hello."}}),
]


@pytest.mark.parametrize(("path", "body"), POSTED)
def test_an_uploaded_voice_needs_no_model(
    client: httpx.Client, ann: str, path: str, body: dict[str, Any]
) -> None:
    content = json.dumps(body).replace("{ann}", ann)
    headers = {"Content-Type": "application/json"}
    answer = client.post(path.replace("{ann}", ann), content=content, headers=headers)
    assert answer.status_code == 200, answer.text
    assert answer.content
    if path.endswith("batch"):
        assert [each["status"] for each in answer.json()["results"]] == ["success"]


def test_the_model_that_speaks_an_uploaded_voice_is_the_first_that_clones(
    client: httpx.Client, ann: str
) -> None:
    body = {**SHORT, "voice": ann}
    found = client.post(SPEECH, json=body)
    named = client.post(SPEECH, json={**body, "model": "clone"})
    assert (found.status_code, found.content) == (200, named.content)
    plain = client.post(SPEECH, json=SHORT)
    assert plain.content == client.post(SPEECH, json={**SHORT, "model": "toy"}).content
    assert error_of(client.post(SPEECH, json={**SHORT, "voice": "nobody"}), 404)["param"] == "voice"


def test_a_job_keeps_the_model_of_an_uploaded_voice(client: httpx.Client, ann: str) -> None:
    made = client.post(f"{SPEECH}/jobs", json={**SHORT, "voice": ann})
    assert made.status_code == 202, made.text
    url = f"{SPEECH}/jobs/{made.json()['id']}"
    wait_until(lambda: client.get(url).json()["status"] in ("completed", "failed"), 60)
    assert client.get(url).json()["status"] == "completed"
    named = client.post(SPEECH, json={**SHORT, "voice": ann, "model": "clone"})
    assert client.get(f"{url}/content").content[:64] == named.content[:64]
    assert client.delete(url).status_code == 200


def test_sockets_speak_an_uploaded_voice_without_a_model(server: RunningServer, ann: str) -> None:
    with opened(server, voice=ann, max_new_tokens=6) as talk:
        say_text(talk, "Hello.")
        assert audio(talk.until("session.done"))
    with connected(
        server, f"/v1/text-to-speech/{ann}/stream-input?output_format=pcm_24000"
    ) as eleven:
        eleven.connection.send('{"text": "Hello. "}')
        eleven.connection.send('{"text": ""}')
        assert json.loads(eleven.connection.recv(30))["audio"]
    with connected(server, f"/v1/speak?model={ann}") as deepgram:
        deepgram.send("Speak", text="Hello.")
        deepgram.send("Flush")
        assert audio(deepgram.until("Flushed"))
    output = {"output": {"voice": ann}}
    with connected(server, "/v1/realtime") as agent:  # the toy model chats too
        agent.send("session.update", session={"audio": output})
        assert (
            messages(agent.until("session.updated"))[-1]["session"]["audio"]["output"]["voice"]
            == ann
        )
        agent.send("session.update", session={"audio": {"output": {"voice": "alto"}}})
        assert messages(agent.until("session.updated"))
