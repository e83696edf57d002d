"""Uploads that are refused say why and leave nothing; voices that cannot be spoken with say so."""

import errno
import json
import os
import socket
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import DataSettings, ModelSettings, ServerSettings, Settings
from antiphon.storage.blobs import BlobStore
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
from tests.servers import RunningServer, start_server, wait_until


@pytest.fixture
def settings(cloning: RunningServer) -> Settings:
    return cloning.state.settings


@pytest.fixture
def client(cloning: RunningServer) -> Generator[httpx.Client, None, None]:
    with client_without_uploads(cloning) as client:
        yield client


LONG_EMBEDDING = json.dumps([0.5] * 4097)


@pytest.mark.parametrize(
    ("file", "fields", "param", "words"),
    [
        (b"not audio", {}, "audio_sample", "Could not decode audio"),
        (wav(0.5), {}, "audio_sample", "too short"),
        (wav(31), {}, "audio_sample", "too large"),
        (wav_of(without_voice()["dither"][:72_000]), {}, "audio_sample", "it is silent"),
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
