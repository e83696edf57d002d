"""Voices of recordings over HTTP: every way to bring one gives what Python gives."""

import asyncio
import json
from typing import Any

import httpx
import pytest

from antiphon import Antiphon
from antiphon.audio.wav import pcm16
from tests.decoding import audio_of, error_of, events
from tests.loops import until
from tests.media.raw_server import RawServer, ok, serving, silent
from tests.recordings import (
    RECORDING,
    RECORDING_URI,
    assert_heard_alike,
    data_uri,
    wav,
    wav_of,
    without_voice,
)
from tests.servers import DEADLINE_S, RunningServer, wait_until

URL = "/v1/audio/speech"
TEXT = "Hello there."
WORDS = "I said this."
SAMPLING: dict[str, Any] = {"max_new_tokens": 6, "seed": 7}
BODY = {"input": TEXT, **SAMPLING, "response_format": "pcm"}
EMBEDDING = [n / 64 for n in range(64)]


def post(server: RunningServer, **body: Any) -> bytes:
    response = httpx.post(f"{server.base_url}{URL}", json={**BODY, **body})
    assert response.status_code == 200, response.text
    return response.content


def post_form(server: RunningServer, files: dict[str, Any], **fields: Any) -> httpx.Response:
    texts = {name: str(value) for name, value in {**BODY, **fields}.items()}
    return httpx.post(f"{server.base_url}{URL}", data=texts, files=files)


@pytest.fixture(scope="module")
def cloned(offline: Antiphon) -> bytes:
    """What Python says with the recording and its words."""
    return pcm16(offline.generate_voice_clone(TEXT, RECORDING, WORDS, **SAMPLING).samples)


def test_an_address_gives_what_python_gives(base: RunningServer, cloned: bytes) -> None:
    folder = base.state.settings.references.allowed_media_path
    for address in (RECORDING_URI, f"file://{folder}/voice.wav"):
        assert post(base, ref_audio=address, ref_text=WORDS) == cloned
        alias = [{"audio_path": address, "text": WORDS}]
        assert post(base, references=alias) == cloned
        assert post(base, references=[{"audio_path": address}], ref_text=WORDS) == cloned
    assert post(base, ref_audio=data_uri(wav(seed=1)), ref_text=WORDS) != cloned
    assert post(base, ref_audio=RECORDING_URI, ref_text="Other words.") != cloned


async def test_a_url_is_fetched(base: RunningServer, cloned: bytes) -> None:
    async with serving({"/voice.wav": ok(RECORDING)}) as web:
        body = {"ref_audio": web.url("/voice.wav"), "ref_text": WORDS}
        found = await asyncio.to_thread(post, base, **body)
    assert found == cloned


def test_an_uploaded_file_gives_the_same(base: RunningServer, cloned: bytes) -> None:
    file = {"ref_audio": ("voice.wav", RECORDING, "audio/wav")}
    assert post_form(base, file, ref_text=WORDS).content == cloned
    assert post_form(base, file, ref_text=WORDS, speed="", language="").content == cloned
    as_file = {**file, "ref_text": ("words.txt", WORDS.encode())}
    assert post_form(base, as_file).content == cloned
    address = {"ref_audio": (None, RECORDING_URI), "ref_text": (None, WORDS)}
    assert post_form(base, address).content == cloned
    alias = json.dumps([{"audio_path": RECORDING_URI, "text": WORDS}])
    assert post_form(base, {"references": (None, alias)}).content == cloned


def test_the_speaker_alone(base: RunningServer, offline: Antiphon, cloned: bytes) -> None:
    spoken = offline.generate_voice_clone(TEXT, RECORDING, x_vector_only_mode=True, **SAMPLING)
    expected = pcm16(spoken.samples)
    assert expected != cloned
    assert post(base, ref_audio=RECORDING_URI, x_vector_only_mode=True) == expected
    file = {"ref_audio": RECORDING}
    assert post_form(base, file, x_vector_only_mode="true").content == expected
    vector = offline.create_voice(RECORDING).speaker_embedding
    assert vector is not None
    assert post(base, speaker_embedding=vector.tolist()) == expected


def test_an_embedding_gives_what_python_gives(base: RunningServer, offline: Antiphon) -> None:
    spoken = offline.generate_voice_clone(TEXT, speaker_embedding=EMBEDDING, **SAMPLING)
    expected = pcm16(spoken.samples)
    assert post(base, speaker_embedding=EMBEDDING) == expected
    form = {"speaker_embedding": (None, json.dumps(EMBEDDING))}
    assert post_form(base, form).content == expected


def test_a_stream_is_the_whole(base: RunningServer, cloned: bytes) -> None:
    clone: dict[str, Any] = {"ref_audio": RECORDING_URI, "ref_text": WORDS}
    assert post(base, **clone, stream=False) == cloned
    for first in (1, 2, 5):
        clone["initial_codec_chunk_frames"] = first
        whole = post(base, **clone, stream=False)
        assert audio_of(events(post(base, **clone, stream=True).decode())) == whole
        assert_heard_alike(whole, cloned)


async def test_many_at_once_are_each_as_alone(base: RunningServer, cloned: bytes) -> None:
    # Whole files, which wait for their turn on a busy machine where listeners are refused.
    clone = {**BODY, "ref_audio": RECORDING_URI, "ref_text": WORDS, "stream": False}
    vector = {**BODY, "speaker_embedding": EMBEDDING, "seed": 9, "stream": False}
    async with httpx.AsyncClient(base_url=base.base_url, timeout=DEADLINE_S) as client:
        sent = (client.post(URL, json=body) for body in (clone, vector) * 5)
        found = [response.content for response in await asyncio.gather(*sent)]
    alone = [cloned, post(base, **vector)]
    for spoken, expected in zip(found, alone * 5, strict=True):
        assert_heard_alike(spoken, expected)
    assert base.num_open == 0


@pytest.mark.parametrize(
    ("files", "fields", "param", "words"),
    [
        ({"ref_audio": b"not audio"}, {}, "ref_audio", "Could not decode audio"),
        ({"ref_audio": wav(0.5)}, {}, "ref_audio", "too short (0.5s)"),
        ({"ref_audio": wav(31)}, {}, "ref_audio", "too long (31.0s)"),
        ({"ref_audio": wav_of(without_voice()["zeros"])}, {}, "ref_audio", "it is silent"),
        ({"ref_audio": wav_of(without_voice()["a tone"])}, {}, "ref_audio", "constant"),
        ({"ref_audio": RECORDING}, {"speed": "fast"}, "speed", "a number"),
        ({"ref_audio": RECORDING}, {"speed": "9"}, "speed", "at most 4"),
        ({"ref_audio": RECORDING}, {"input": ""}, "input", "Missing"),
        ({"ref_audio": b""}, {}, "ref_audio", "requires 'ref_audio'"),
        ({"speaker_embedding": (None, "0.5, 0.5")}, {}, "speaker_embedding", "non-empty list"),
    ],
)
def test_wrong_forms_name_their_field(
    base: RunningServer, files: dict[str, Any], fields: dict[str, str], param: str, words: str
) -> None:
    response = post_form(base, files, ref_text=WORDS, **fields)
    error = error_of(response, 400)
    assert error["param"] == param
    assert words in error["message"]


def test_broken_and_huge_forms(base: RunningServer) -> None:
    url, form = f"{base.base_url}{URL}", "multipart/form-data"
    for content_type in (form, f"{form}; boundary=x"):
        headers = {"Content-Type": content_type}
        assert error_of(httpx.post(url, content=b"--y", headers=headers), 400)["param"] is None
    huge = bytes(base.state.settings.server.max_body_bytes)
    assert error_of(post_form(base, {"ref_audio": huge}), 413)["code"] == "request_too_large"


def test_leaving_frees_everything(base: RunningServer) -> None:
    clone = {"input": TEXT * 500, "ref_audio": RECORDING_URI, "ref_text": WORDS, "seed": 7}
    with httpx.stream("POST", f"{base.base_url}{URL}", json=clone) as response:
        pieces = response.iter_raw()  # kept: the connection closes with it
        assert next(pieces)
        wait_until(lambda: base.num_open > 0)  # there is a moment between two segments
    wait_until(lambda: base.num_open == 0)


async def test_leaving_while_a_recording_is_fetched_ends_the_fetch(base: RunningServer) -> None:
    async def leave(web: RawServer) -> None:
        body = {**BODY, "ref_audio": web.url("/voice.wav"), "ref_text": WORDS}
        async with httpx.AsyncClient(base_url=base.base_url) as client:
            request = asyncio.create_task(client.post(URL, json=body))
            await until(lambda: web.requests)
            request.cancel()
            await asyncio.wait([request])

    async with serving({"/voice.wav": silent}) as web:
        before = base.tasks()
        await leave(web)
        await asyncio.to_thread(wait_until, lambda: base.tasks() <= before)
    assert base.num_open == 0


def test_forms_are_documented(base: RunningServer) -> None:
    schema = httpx.get(f"{base.base_url}/openapi.json").json()
    content = schema["paths"][URL]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", "multipart/form-data"}
