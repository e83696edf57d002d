"""Served in S1's layout: voices of recordings over HTTP, whole and streamed, uploaded and not."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, Settings
from tests.recordings import RECORDING, RECORDING_URI
from tests.servers import RunningServer, start_server

pytestmark = pytest.mark.slow  # a server of its own; the conformance suite speaks without one

WORDS = "What is said there."
FRAME_BYTES = 2 * 2048


@pytest.fixture(scope="module")
def server(made: Callable[[str], Path]) -> Generator[RunningServer, None, None]:
    settings = ModelSettings(source=str(made("s1")), device="cpu", max_slots=4)
    with start_server(Settings(model=settings)) as running:
        yield running


def speech(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"input": "Hello.", "response_format": "pcm", "seed": 3, "max_new_tokens": 8}
    return client.post("/v1/audio/speech", json={**body, **fields})


def heard(client: httpx.Client, **fields: Any) -> bytes:
    answer = speech(client, **fields)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_a_recording_changes_the_voice(client: httpx.Client) -> None:
    cloned = heard(client, ref_audio=RECORDING_URI, ref_text=WORDS)
    assert cloned == heard(client, ref_audio=RECORDING_URI, ref_text=WORDS)
    plain = heard(client)
    assert plain != cloned
    assert 0 < len(plain) <= 7 * FRAME_BYTES
    assert len(plain) % FRAME_BYTES == 0
    assert speech(client).headers["content-type"].startswith("audio/pcm")


def test_an_uploaded_voice_is_that_of_its_recording(client: httpx.Client) -> None:
    answer = client.post(
        "/v1/audio/voices",
        files={"audio_sample": ("a.wav", RECORDING, "audio/wav")},
        data={"name": "Ann", "consent": "yes", "ref_text": WORDS},
    )
    assert answer.status_code == 200, answer.text
    cloned = heard(client, ref_audio=RECORDING_URI, ref_text=WORDS)
    assert heard(client, voice="Ann") == cloned


def test_streams_at_once_are_the_whole_files(client: httpx.Client) -> None:
    def streamed(seed: int) -> bytes:
        body = {"input": "Hello.", "response_format": "pcm", "seed": seed, "max_new_tokens": 8}
        with client.stream("POST", "/v1/audio/speech", json=body) as answer:
            assert answer.status_code == 200
            return b"".join(answer.iter_bytes())

    with ThreadPoolExecutor(4) as pool:
        streams = [*pool.map(streamed, range(4))]
    assert streams == [heard(client, seed=seed) for seed in range(4)]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"ref_audio": RECORDING_URI}, "ref_text"),
        ({"ref_text": WORDS}, "ref_text"),
        ({"repetition_penalty": 1.5}, "repetition_penalty"),
        ({"language": "en"}, "language"),
        ({"voice": "Bob"}, "voice"),
    ],
    ids=str,
)
def test_what_is_wrong_is_named(client: httpx.Client, fields: dict[str, Any], param: str) -> None:
    answer = speech(client, **fields)
    assert answer.status_code in (400, 404)
    assert answer.json()["error"]["param"] == param
