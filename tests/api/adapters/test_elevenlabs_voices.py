"""ElevenLabs' voices: listed page by page, described, added, edited and deleted; its account."""

from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import DataSettings, ModelSettings, ServerSettings, Settings
from tests.recordings import RECORDING, wav, wav_of, without_voice
from tests.servers import start_server

KEY = "sk-test"


@pytest.fixture
def cloner(checkpoint: Callable[..., Path], tmp_path: Path) -> Generator[httpx.Client, None, None]:
    settings = Settings(
        model=ModelSettings(source=str(checkpoint("tiny", "base")), device="cpu"),
        server=ServerSettings(api_keys=(KEY,)),
        data=DataSettings(dir=tmp_path),
    )
    with (
        start_server(settings) as running,
        httpx.Client(base_url=running.base_url, timeout=60, headers={"xi-api-key": KEY}) as client,
    ):
        yield client


def added(client: httpx.Client, name: str, **fields: Any) -> httpx.Response:
    files = [("files", ("a.wav", RECORDING, "audio/wav"))]
    return client.post("/v1/voices/add", data={"name": name, **fields}, files=files)


def names(client: httpx.Client, **query: Any) -> list[str]:
    return [each["name"] for each in client.get("/v2/voices", params=query).json()["voices"]]


def test_a_voice_from_its_beginning_to_its_end(cloner: httpx.Client) -> None:
    answer = added(cloner, "Ann", labels="null", remove_background_noise="false")
    assert answer.status_code == 200, answer.text
    id = answer.json()["voice_id"]
    assert added(cloner, "Ann").json()["voice_id"] == id, "the same once more is the same voice"
    told = cloner.get(f"/v1/voices/{id}").json()
    assert (told["voice_id"], told["name"], told["category"]) == (id, "Ann", "cloned")
    assert told["samples"][0]["size_bytes"] == len(RECORDING)
    for name in (id, "ann"):
        speech = cloner.post(f"/v1/text-to-speech/{name}", json={"text": "Hi.", "seed": 1})
        assert speech.status_code == 200
        assert speech.content
    form = {"name": "Anna", "description": "kind"}
    edited = cloner.post(f"/v1/voices/{id}/edit", data=form, files={})
    assert edited.json() == {"status": "ok"}
    told = cloner.get("/v1/voices/Anna").json()
    assert (told["voice_id"], told["description"]) == (id, "kind")
    assert cloner.get(f"/v1/voices/{id}/settings").json()["speed"] == 1.0
    assert cloner.delete(f"/v1/voices/{id}").json() == {"status": "ok"}
    assert cloner.get(f"/v1/voices/{id}").status_code == 404


def test_pages_and_searches(cloner: httpx.Client) -> None:
    for name in ("Cleo", "ann", "Bob"):
        assert added(cloner, name).status_code == 200
    assert names(cloner) == ["Reference", "Cleo", "ann", "Bob"]
    assert names(cloner, sort="name") == ["ann", "Bob", "Cleo", "Reference"]
    assert names(cloner, sort="name", sort_direction="desc")[0] == "Reference"
    assert names(cloner, search="OB") == ["Bob"]
    assert names(cloner, voice_type="personal") == ["Cleo", "ann", "Bob"]
    assert names(cloner, voice_type="default") == ["Reference"]
    assert names(cloner, category="cloned", search="c") == ["Cleo"]
    assert names(cloner, voice_ids=["reference", "nothing"]) == ["Reference"]
    found: list[str] = []
    token = None
    while token is not None or not found:
        query = {"page_size": 3, **({"next_page_token": token} if token else {})}
        page = cloner.get("/v2/voices", params=query).json()
        assert page["total_count"] == 4
        assert page["has_more"] == (page["next_page_token"] is not None)
        found += [each["name"] for each in page["voices"]]
        token = page["next_page_token"]
    assert found == ["Reference", "Cleo", "ann", "Bob"]


@pytest.mark.parametrize(
    ("form", "files", "param"),
    [
        ({}, [RECORDING], "name"),
        ({"name": "a/b"}, [RECORDING], "name"),
        ({"name": "reference"}, [RECORDING], "name"),
        ({"name": "Ann"}, [], "files"),
        ({"name": "Ann"}, [b"no audio"], "files"),
        ({"name": "Ann"}, [wav(0.5)], "files"),
        ({"name": "Ann"}, [RECORDING, RECORDING], "files"),
        ({"name": "Ann"}, [wav_of(without_voice()["hum of 50 Hz"])], "files"),
        ({"name": "Ann", "labels": '{"a": "b"}'}, [RECORDING], "labels"),
        (
            {"name": "Ann", "remove_background_noise": "true"},
            [RECORDING],
            "remove_background_noise",
        ),
        ({"name": "Ann", "description": "x" * 1001}, [RECORDING], "description"),
    ],
)
def test_what_cannot_be_added_is_told(
    base: Any, form: dict[str, str], files: list[bytes], param: str
) -> None:
    parts = [("files", ("a.wav", each, "audio/wav")) for each in files]
    answer = httpx.post(
        f"{base.base_url}/v1/voices/add", data=form, files=parts or {"x": b"x"}, timeout=60
    )
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == param
    assert answer.json()["detail"]["message"] == answer.json()["error"]["message"]


def test_what_cannot_be_edited_is_told(cloner: httpx.Client) -> None:
    ann, bob = (added(cloner, name).json()["voice_id"] for name in ("Ann", "Bob"))
    for data, files, param in [
        ({"name": "BOB"}, {}, "name"),
        ({"name": "alloy"}, {}, "name"),
        ({"name": "Cleo"}, {"files": ("a.wav", RECORDING, "audio/wav")}, "files"),
    ]:
        answer = cloner.post(f"/v1/voices/{ann}/edit", data=data, files=files)
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == param
    assert cloner.post(f"/v1/voices/{ann}/edit", data={"name": "ANN"}).status_code == 200
    assert names(cloner, voice_type="personal") == ["ANN", "Bob"]
    settings = cloner.post(f"/v1/voices/{bob}/settings/edit", json={"stability": 1})
    assert settings.json()["detail"]["status"] == "not_supported"
    for method, path in [("POST", "edit"), ("POST", "settings/edit"), ("GET", "settings")]:
        answer = cloner.request(method, f"/v1/voices/nobody/{path}", json={})
        assert answer.status_code == 404


def test_a_model_that_clones_nothing_adds_nothing(client: httpx.Client) -> None:
    answer = added(client, "Ann")
    assert answer.json()["detail"]["status"] == "voice_not_supported"
    told = client.get("/v1/voices/alto").json()
    assert (told["name"], told["category"]) == ("Alto", "premade")
    missing = client.get("/v1/voices/nobody")
    assert missing.status_code == 404
    assert "alto" in missing.json()["detail"]["message"]
    assert client.get("/v2/voices?next_page_token=nobody").status_code == 400
    assert client.get("/v2/voices?page_size=0").status_code == 400


def test_models_are_told_by_the_header_of_the_key(client: httpx.Client) -> None:
    assert client.get("/v1/models").json()["object"] == "list"
    (model,) = client.get("/v1/models", headers={"xi-api-key": "any"}).json()
    assert model["model_id"] == "toy"
    assert model["can_do_text_to_speech"]
    assert {"language_id": "english", "name": "english"} in model["languages"]


def test_an_account_that_may_do_what_the_server_allows(cloner: httpx.Client) -> None:
    user = cloner.get("/v1/user").json()
    assert user["subscription"] == cloner.get("/v1/user/subscription").json()
    assert user["subscription"]["can_use_instant_voice_cloning"]
    assert user["subscription"]["voice_slots_used"] == 0
    assert added(cloner, "Ann").status_code == 200
    assert cloner.get("/v1/user/subscription").json()["voice_slots_used"] == 1


@pytest.mark.parametrize("path", ["/v1/user", "/v1/voices", "/v2/voices"])
def test_its_key_is_asked_for(cloner: httpx.Client, path: str) -> None:
    assert cloner.get(path).status_code == 200
    for key in ("", "wrong"):
        answer = cloner.get(path, headers={"xi-api-key": key})
        assert answer.status_code == 401
        assert answer.json()["detail"]["status"] == "invalid_api_key"
        assert answer.json()["error"]["code"] == "invalid_api_key"
