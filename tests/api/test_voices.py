"""Voices of one's own over HTTP: an upload that was answered can be spoken with, everywhere."""

import errno
import json
import os
import socket
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.audio.sandbox import DecodeSandbox
from antiphon.config import (
    DataSettings,
    ModelSettings,
    ReferenceSettings,
    ServerSettings,
    Settings,
    SpeechSettings,
)
from antiphon.models.prepared import PreparedVoice
from antiphon.models.qwen3_tts.voice_preparer import VoicePreparer
from antiphon.storage.blobs import BlobStore
from antiphon.types import Samples
from tests.decoding import error_of
from tests.recordings import RECORDING, RECORDING_URI, wav
from tests.servers import RunningServer, start_server, wait_until

URL = "/v1/audio/voices"
WORDS = "I said this."
EMBEDDING = [n / 64 for n in range(64)]
SPEECH: dict[str, Any] = {
    "input": "Hello there.",
    "response_format": "pcm",
    "max_new_tokens": 6,
    "seed": 7,
}


@pytest.fixture(scope="module")
def settings(checkpoint: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Settings:
    return Settings(
        model=ModelSettings(
            source=str(checkpoint("tiny", "base")), name="clone", device="cpu", max_slots=4
        ),
        speech=SpeechSettings(voice_aliases={"alloy": "default", "narrator": "Nora"}),
        references=ReferenceSettings(max_bytes=200_000),
        data=DataSettings(dir=tmp_path_factory.mktemp("voices"), max_voices=5),
    )


@pytest.fixture(scope="module")
def cloning(settings: Settings) -> Generator[RunningServer, None, None]:
    with start_server(settings) as running:
        yield running


@pytest.fixture
def client(cloning: RunningServer) -> Generator[httpx.Client, None, None]:
    """A client of a server that has no uploaded voices, before and after the test."""
    with httpx.Client(base_url=cloning.base_url, timeout=60) as client:
        yield client
        for voice in uploaded(client):
            assert client.delete(f"{URL}/{voice['id']}").status_code == 200


def upload(client: httpx.Client, file: Any = RECORDING, **fields: Any) -> httpx.Response:
    return client.post(URL, data={"name": "Ann", **fields}, files={"audio_sample": file})


def uploaded(client: httpx.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(URL).json()["uploaded_voices"]
    return found


def spoken(client: httpx.Client, **fields: Any) -> bytes:
    response = client.post("/v1/audio/speech", json={**SPEECH, **fields})
    assert response.status_code == 200, response.text
    return response.content


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
    """Return a list of the work that recordings have made."""
    done: list[str] = []
    decode, prepare = DecodeSandbox.decode, VoicePreparer.prepare

    def noted_decode(self: DecodeSandbox, *args: Any, **more: Any) -> Samples:
        done.append("decoded")
        return decode(self, *args, **more)

    def noted_prepare(self: VoicePreparer, *args: Any, **more: Any) -> PreparedVoice:
        done.append("heard")
        return prepare(self, *args, **more)

    monkeypatch.setattr(DecodeSandbox, "decode", noted_decode)
    monkeypatch.setattr(VoicePreparer, "prepare", noted_prepare)
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


LONG_EMBEDDING = json.dumps([0.5] * 4097)


@pytest.mark.parametrize(
    ("file", "fields", "param", "words"),
    [
        (b"not audio", {}, "audio_sample", "Could not decode audio"),
        (wav(0.5), {}, "audio_sample", "too short"),
        (wav(31), {}, "audio_sample", "too large"),
        (("a.txt", RECORDING, "text/plain"), {}, "audio_sample", "audio/mpeg"),
        ((None, "a"), {}, "audio_sample", "must be a file"),
        (b"", {}, "audio_sample", "Missing"),
        (RECORDING, {"name": ""}, "name", "Missing"),
        (RECORDING, {"name": "a/../b"}, "name", "may not contain"),
        (RECORDING, {"name": "a\r\nSet-Cookie: b"}, "name", "control characters"),
        (RECORDING, {"name": "Alloy"}, "name", "reserved"),
        (RECORDING, {"name": "REFERENCE"}, "name", "reserved"),
        (RECORDING, {"name": "default"}, "name", "reserved"),
        (RECORDING, {"name": "x" * 101}, "name", "at most 100"),
        (RECORDING, {"ref_text": "x" * 4001}, "ref_text", "at most 4000"),
        (RECORDING, {"type": "prompt"}, "type", "audio_sample"),
        (RECORDING, {"consent": "cons_" + "0" * 24}, "consent", "no consent"),
        (RECORDING, {"speaker_embedding": "[1]"}, "speaker_embedding", "mutually exclusive"),
        (b"", {"speaker_embedding": "[1, 2]"}, "speaker_embedding", "needs 64"),
        (b"", {"speaker_embedding": "1, 2"}, "speaker_embedding", "finite numbers"),
        (b"", {"speaker_embedding": "[" * 100_000}, "speaker_embedding", "finite numbers"),
        (b"", {"speaker_embedding": "1" * 200_000}, "speaker_embedding", "finite numbers"),
        (b"", {"speaker_embedding": "[true]"}, "speaker_embedding", "finite numbers"),
        (b"", {"speaker_embedding": "[]"}, "speaker_embedding", "finite numbers"),
        (RECORDING, {"name": "x" * 200_000}, "name", "at most 100"),
        (b"", {"speaker_embedding": "[NaN]"}, "speaker_embedding", "finite numbers"),
        (b"", {"speaker_embedding": "[1e300]"}, "speaker_embedding", "finite numbers"),
        (b"", {"speaker_embedding": LONG_EMBEDDING}, "speaker_embedding", "at most 4096"),
    ],
    ids=lambda value: ascii(value)[:30],
)
def test_what_will_not_do_is_told_and_leaves_nothing(
    client: httpx.Client,
    settings: Settings,
    file: Any,
    fields: dict[str, str],
    param: str,
    words: str,
) -> None:
    error = error_of(upload(client, file, **fields), 400 if param != "consent" else 404)
    assert error["param"] == param
    assert words in error["message"]
    assert uploaded(client) == []
    assert not list((settings.data.folder / "blobs").glob("*/*"))


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"1", b"[" * 100_000])
def test_bodies_of_other_kinds(client: httpx.Client, body: bytes) -> None:
    error_of(client.post(URL, content=body), 400)
    form = {"Content-Type": "multipart/form-data"}
    error_of(client.post(URL, content=body, headers=form), 400)


@pytest.mark.parametrize("path", ["..%2F..%2Fetc%2Fpasswd", "%00", "a%0d%0ab", "%F0%9F%98%80", "'"])
def test_paths_name_nothing_but_voices(client: httpx.Client, path: str) -> None:
    for method in ("GET", "DELETE"):
        response = client.request(method, f"{URL}/{path}")
        assert response.status_code == 404
        assert "set-cookie" not in response.headers


def test_the_number_of_voices_is_limited(client: httpx.Client) -> None:
    for number in range(5):
        assert upload(client, name=f"v{number}").status_code == 200
    assert error_of(upload(client, name="one too many"), 400)["code"] == "too_many_voices"
    assert upload(client, name="v4").status_code == 200  # it is there already
    client.delete(f"{URL}/v0")
    assert upload(client, name="one too many").status_code == 200


@pytest.mark.parametrize(("code", "status"), [(errno.ENOSPC, 507), (errno.EACCES, 500)])
def test_a_disk_that_takes_no_more_is_told(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, code: int, status: int
) -> None:
    upload(client, name="Kept", ref_text=WORDS)
    expected = spoken(client, voice="Kept")

    def put(blobs: BlobStore, key: str, content: bytes) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(BlobStore, "put", put)
        error = error_of(upload(client), status)
        assert "data folder" in error["message"]
        assert [voice["name"] for voice in uploaded(client)] == ["Kept"]
    assert spoken(client, voice="Kept") == expected
    assert upload(client).status_code == 200


def test_an_upload_that_is_cut_leaves_nothing(
    client: httpx.Client, cloning: RunningServer, settings: Settings
) -> None:
    request = client.build_request(
        "POST", URL, data={"name": "Ann"}, files={"audio_sample": RECORDING}
    )
    head = f"POST {URL} HTTP/1.1\r\nHost: localhost\r\n" + "".join(
        f"{name}: {request.headers[name]}\r\n" for name in ("Content-Type", "Content-Length")
    )
    before = cloning.tasks()
    with socket.create_connection(("127.0.0.1", cloning.port)) as connection:
        connection.sendall(head.encode() + b"\r\n" + request.read()[:-1000])
    wait_until(lambda: cloning.tasks() <= before)
    assert uploaded(client) == []
    assert not list((settings.data.folder / "blobs").glob("*/*"))


def test_a_recording_beside_the_voice_is_refused(client: httpx.Client) -> None:
    upload(client, ref_text=WORDS)
    speech = {**SPEECH, "voice": "Ann", "ref_audio": RECORDING_URI}
    error = error_of(client.post("/v1/audio/speech", json=speech), 400)
    assert error["param"] == "ref_audio"
    assert "mutually exclusive" in error["message"]


@pytest.mark.parametrize("task", ["custom_voice", None])
def test_a_model_that_clones_nothing_says_so(
    client: httpx.Client, settings: Settings, checkpoint: Callable[..., Path], task: str | None
) -> None:
    upload(client, ref_text=WORDS)
    source = "toy" if task is None else str(checkpoint("tiny", task))
    model = ModelSettings(source=source, device="cpu")
    changed = settings.model_copy(update={"model": model})
    with start_server(changed) as server, httpx.Client(base_url=server.base_url) as other:
        body = other.get(URL).json()
        own = [voice["id"] for voice in body["data"]]
        speech = other.post("/v1/audio/speech", json={"input": "Hello.", "voice": "Ann"})
        for answer in (speech, upload(other, name="Bob")):
            error = error_of(answer, 400)
            assert error["code"] == "voice_not_supported"
            assert "Serve a checkpoint that does" in error["message"]
            assert ", ".join(own) in error["message"]
        assert {voice["type"] for voice in body["data"]} == {"builtin"}
        assert [voice["name"] for voice in body["uploaded_voices"]] == ["Ann"]


def test_strangers_see_names_alone(client: httpx.Client, settings: Settings) -> None:
    voice = upload(client, ref_text=WORDS, consent="yes").json()
    guarded = settings.model_copy(update={"server": ServerSettings(api_keys=("sesame",))})
    with start_server(guarded) as server, httpx.Client(base_url=server.base_url) as stranger:
        body = stranger.get(URL)
        assert body.json()["voices"][-1] == {"id": voice["id"], "name": "Ann"}
        assert WORDS not in body.text
        for answer in (stranger.get(f"{URL}/Ann"), stranger.delete(f"{URL}/Ann"), upload(stranger)):
            assert error_of(answer, 401)["code"] == "invalid_api_key"
        assert stranger.get("/v1/audio/voice_consents").status_code == 401
        friend = {"Authorization": "Bearer sesame"}
        assert stranger.get(URL, headers=friend).json()["uploaded_voices"][0]["ref_text"] == WORDS


def test_consents(client: httpx.Client) -> None:
    url = "/v1/audio/voice_consents"
    fields = {"name": "Ann agrees", "language": "en-US"}
    consent = client.post(url, data=fields, files={"recording": RECORDING}).json()
    assert upload(client, consent=consent["id"]).json()["consent"] == consent["id"]
    assert client.delete(f"{url}/{consent['id']}").json()["deleted"]
    assert spoken(client, voice="Ann")
    for files, change, param in (
        ({"recording": b"not audio"}, {}, "recording"),
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


def test_a_folder_that_cannot_be_used_stops_no_speech(
    settings: Settings, tmp_path: Path, client: httpx.Client
) -> None:
    (tmp_path / "file").write_text("in the way")
    data = DataSettings(dir=tmp_path / "file")
    with (
        start_server(settings.model_copy(update={"data": data})) as server,
        httpx.Client(base_url=server.base_url) as other,
    ):
        assert spoken(other, speaker_embedding=EMBEDDING)
        assert other.get(URL).json()["uploaded_voices"] == []
        assert error_of(upload(other), 500)["code"] == "storage_error"


def test_voices_in_memory_are_prepared_alike(client: httpx.Client, cloning: RunningServer) -> None:
    """What is kept of a voice is what the model hears, and is not computed for each request."""
    upload(client, ref_text=WORDS)
    (file,) = (cloning.state.settings.data.folder / "prepared").iterdir()
    kept = PreparedVoice.load(file)
    assert (kept.name, kept.ref_text) == ("Ann", WORDS)
    assert kept.ref_codes is not None
    assert kept.speaker_embedding is not None
    assert np.isfinite(kept.speaker_embedding).all()
