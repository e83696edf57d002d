"""Voices of one's own where several models are served, of which only some clone voices."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, ModelsSettings, Settings
from tests.decoding import error_of
from tests.recordings import RECORDING
from tests.servers import start_server, wait_until

VOICES, SPEECH = "/v1/audio/voices", "/v1/audio/speech"


@pytest.fixture(scope="module")
def client(
    checkpoint: Callable[[Any, str], Path],
) -> Generator[httpx.Client, None, None]:
    clone = ModelSettings(source=str(checkpoint("tiny", "base")), name="clone", device="cpu")
    settings = Settings(model=ModelSettings(source="toy"), models=ModelsSettings(more=(clone,)))
    with start_server(settings) as server:
        wait_until(lambda: server.state.is_ready)
        with httpx.Client(base_url=server.base_url, timeout=60) as client:
            yield client


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
        assert id not in {each["id"] for each in listed["voices"]}, "the default has other voices"
        ours = client.get(VOICES, params={"model": "clone"}).json()["voices"]
        assert id in {each["id"] for each in ours}
        assert client.get(f"{VOICES}/ann").json()["id"] == id
        body = {"input": "Hello.", "voice": "ann", "max_new_tokens": 4}
        assert client.post(SPEECH, json={**body, "model": "clone"}).status_code == 200
        error = error_of(client.post(SPEECH, json=body), 400)
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
