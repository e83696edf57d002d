"""Voices of one's own over HTTP: an upload that was answered can be spoken with, everywhere."""

import json
from collections.abc import Generator
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.audio.plain_wav import read_plain_wav
from antiphon.config import Settings
from antiphon.contracts.prepared_voice import PreparedVoice
from antiphon.contracts.types import Samples
from antiphon.families.kit.cloned_voices import CloningPrompter
from tests.api.voice_uploads import (
    EMBEDDING,
    SPEECH,
    URL,
    WORDS,
    client_without_uploads,
    spoken,
    upload,
    uploaded,
)
from tests.decoding import error_of
from tests.recordings import RECORDING, RECORDING_URI, wav, wav_of, without_voice
from tests.servers import RunningServer, start_server


@pytest.fixture
def settings(cloning: RunningServer) -> Settings:
    return cloning.state.settings


@pytest.fixture
def client(cloning: RunningServer) -> Generator[httpx.Client, None, None]:
    with client_without_uploads(cloning) as client:
        yield client


def test_a_voice_speaks_as_its_recording_does(client: httpx.Client) -> None:
    expected = spoken(client, ref_audio=RECORDING_URI, ref_text=WORDS)
    voice = upload(client, ("a.wav", RECORDING, "audio/wav"), ref_text=WORDS).json()
    for name in ("Ann", "ANN", voice["id"], {"id": voice["id"]}):
        assert spoken(client, voice=name) == expected
    assert spoken(client, speaker="ann") == expected
    assert spoken(client, voice="Ann", stream=False) == expected
    other = spoken(client, voice="Ann", ref_text="Other words.")
    assert other == spoken(client, ref_audio=RECORDING_URI, ref_text="Other words.") != expected


def test_without_words_and_as_an_embedding(client: httpx.Client) -> None:
    assert upload(client).status_code == 200
    sound = {"ref_audio": RECORDING_URI, "x_vector_only_mode": True}
    assert spoken(client, voice="Ann") == spoken(client, **sound)
    text = json.dumps(EMBEDDING)
    answers = {
        "multipart": upload(client, b"", name="multipart", speaker_embedding=text),
        "form": client.post(URL, data={"name": "form", "speaker_embedding": text}),
        "JSON": client.post(URL, json={"name": "JSON", "speaker_embedding": EMBEDDING}),
    }
    for name, response in answers.items():
        answer = response.json()
        assert (answer["embedding_source"], answer["embedding_dim"]) == ("direct", 64)
        assert spoken(client, voice=name) == spoken(client, speaker_embedding=EMBEDDING)


def test_one_body_for_every_reader(client: httpx.Client) -> None:
    answer = upload(client, ref_text=WORDS, consent="yes", speaker_description="calm").json()
    assert answer["id"].startswith("voice_")
    openai = {name: answer[name] for name in ("id", "object", "name", "type", "created_at")}
    assert (openai["object"], openai["name"], openai["type"]) == (
        "audio.voice",
        "Ann",
        "audio_sample",
    )
    omni = {
        "id": answer["id"],
        "name": "Ann",
        "consent": "yes",
        "created_at": answer["created_at"],
        "file_size": len(RECORDING),
        "mime_type": "audio/wav",
        "embedding_source": "audio",
        "ref_text": WORDS,
        "speaker_description": "calm",
    }
    assert (answer["success"], answer["voice"]) == (True, omni)
    assert client.get(f"{URL}/{answer['id']}").json() == answer
    assert client.get(f"{URL}/ann").json() == answer
    listed = client.get(URL).json()
    assert listed["data"][-1] == {**openai, "model": "clone"}
    assert listed["voices"][-1] == {"id": answer["id"], "name": "Ann"}
    assert listed["uploaded_voices"] == [omni]
    assert client.get(URL, params={"legacy": "true"}).json() == {"voices": ["reference", "Ann"]}
    old = client.get("/v1/audio/speech/voices").json()
    assert old[-1] == {"model_id": "clone", "voice_id": "Ann"}


def test_built_in_voices_are_described_too(client: httpx.Client) -> None:
    assert client.get(f"{URL}/Reference").json()["type"] == "builtin"
    assert error_of(client.delete(f"{URL}/reference"), 404)["code"] == "voice_not_found"


def test_deletion_is_for_good(client: httpx.Client, settings: Settings) -> None:
    answer = upload(client, ref_text=WORDS).json()
    prepared = settings.data.folder / "prepared"
    assert len(list(prepared.iterdir())) == 1
    gone = client.delete(f"{URL}/ANN").json()
    assert gone == {
        "id": answer["id"],
        "object": "audio.voice.deleted",
        "deleted": True,
        "success": True,
        "message": "Voice 'Ann' deleted successfully",
    }
    for name in ("Ann", answer["id"]):
        assert error_of(client.get(f"{URL}/{name}"), 404)["code"] == "voice_not_found"
        assert error_of(client.delete(f"{URL}/{name}"), 404)["param"] == "voice"
        speech = client.post("/v1/audio/speech", json={**SPEECH, "voice": name})
        assert error_of(speech, 404)["code"] == "voice_not_found"
    assert not list(prepared.iterdir())
    assert not list((settings.data.folder / "blobs").glob("*/*"))


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    done: list[str] = []
    prepare = CloningPrompter.prepare_voice

    def noted_read(data: bytes, **more: Any) -> "Samples | None":
        done.append("decoded")
        return read_plain_wav(data, **more)

    def noted_prepare(self: CloningPrompter, *args: Any, **more: Any) -> PreparedVoice:
        done.append("heard")
        return prepare(self, *args, **more)

    monkeypatch.setattr("antiphon.voices.recordings.read_plain_wav", noted_read)
    monkeypatch.setattr(CloningPrompter, "prepare_voice", noted_prepare)
    return done


def test_a_recording_is_heard_once_and_by_every_server(
    client: httpx.Client, settings: Settings, work: list[str]
) -> None:
    with start_server(settings) as other:  # it was there before the voice
        upload(client, wav(seed=3), ref_text=WORDS)
        assert work == ["decoded", "heard"]
        expected = spoken(client, voice="Ann")
        with httpx.Client(base_url=other.base_url) as stranger:
            assert spoken(stranger, voice="Ann") == expected
            assert stranger.delete(f"{URL}/Ann").status_code == 200
        speech = client.post("/v1/audio/speech", json={**SPEECH, "voice": "Ann"})
        assert error_of(speech, 404)["code"] == "voice_not_found"
        assert work == ["decoded", "heard"]


def test_a_restart_forgets_nothing(
    client: httpx.Client, settings: Settings, work: list[str]
) -> None:
    upload(client, wav(seed=4), ref_text=WORDS)
    expected = spoken(client, voice="Ann")
    work.clear()
    with start_server(settings) as again, httpx.Client(base_url=again.base_url) as after:
        assert spoken(after, voice="Ann") == expected
    assert work == []
    for file in (settings.data.folder / "prepared").iterdir():
        file.unlink()  # nothing but time is lost with it
    with start_server(settings) as again, httpx.Client(base_url=again.base_url) as after:
        assert spoken(after, voice="Ann") == expected
    assert work == ["decoded", "heard"]


def test_an_alias_may_name_an_uploaded_voice(client: httpx.Client) -> None:
    speech = {**SPEECH, "voice": "narrator"}
    assert client.post("/v1/audio/speech", json=speech).status_code == 404
    assert upload(client, name="Nora", ref_text=WORDS).status_code == 200
    assert spoken(client, voice="narrator") == spoken(client, voice="Nora")


def test_who_asks_again_gets_the_same_answer(client: httpx.Client) -> None:
    assert upload(client).json() == upload(client).json()
    assert len(uploaded(client)) == 1
    assert error_of(upload(client, wav(seed=2)), 400)["code"] == "voice_exists"


def test_consents(client: httpx.Client) -> None:
    url = "/v1/audio/voice_consents"
    fields = {"name": "Ann agrees", "language": "en-US"}
    consent = client.post(url, data=fields, files={"recording": RECORDING}).json()
    assert upload(client, consent=consent["id"]).json()["consent"] == consent["id"]
    assert client.delete(f"{url}/{consent['id']}").json()["deleted"]
    assert spoken(client, voice="Ann")
    for files, change, param in (
        ({"recording": b"not audio"}, {}, "recording"),
        ({"recording": wav_of(without_voice()["zeros"])}, {}, "recording"),
        ({}, {}, "recording"),
        ({"recording": RECORDING}, {"language": "?"}, "language"),
        ({"recording": RECORDING}, {"name": "a\nb"}, "name"),
    ):
        parts = {name: (None, text) for name, text in {**fields, **change}.items()}
        error = error_of(client.post(url, files={**parts, **files}), 400)
        assert error["param"] == param
    assert client.get(url).json()["data"] == []


def test_the_schema_tells_of_forms(client: httpx.Client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    for path in (URL, "/v1/audio/voice_consents"):
        assert "multipart/form-data" in paths[path]["post"]["requestBody"]["content"]


def test_voices_in_memory_are_prepared_alike(client: httpx.Client, cloning: RunningServer) -> None:
    """What is kept of a voice is what the model hears, and is not computed for each request."""
    upload(client, ref_text=WORDS)
    (file,) = (cloning.state.settings.data.folder / "prepared").iterdir()
    kept = PreparedVoice.load(file)
    assert (kept.name, kept.ref_text) == ("Ann", WORDS)
    assert kept.ref_codes is not None
    assert kept.speaker_embedding is not None
    assert np.isfinite(kept.speaker_embedding).all()
