"""Served over HTTP: voices of recordings, in requests and kept, in every format, side by side."""

import base64
import io
import wave
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from antiphon.config import ModelSettings, Settings
from antiphon.formats import AudioFormat
from tests.families.cosyvoice3.oracle.cases import recording
from tests.servers import RunningServer, start_server, wait_until

RATE_HZ, SAMPLES_PER_TOKEN = 24_000, 960


def wave_file() -> bytes:
    file, samples = io.BytesIO(), np.tile(recording(RATE_HZ), 2)
    with wave.open(file, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(RATE_HZ)
        out.writeframes((samples * 32767).clip(-32768, 32767).astype("<i2").tobytes())
    return file.getvalue()


RECORDING = wave_file()
RECORDING_URI = "data:audio/wav;base64," + base64.b64encode(RECORDING).decode()
SPEECH = {
    "input": "Hello there.",
    "response_format": "pcm",
    "max_new_tokens": 61,
    "seed": 7,
    "ref_audio": RECORDING_URI,
}


@pytest.fixture(scope="module")
def server(base: Path) -> Generator[RunningServer, None, None]:
    model = ModelSettings(source=str(base), name="cosy", device="cpu", max_slots=4)
    with start_server(Settings(model=model)) as running:
        yield running


def heard(client: httpx.Client, **fields: Any) -> bytes:
    answer = client.post("/v1/audio/speech", json={**SPEECH, **fields})
    assert answer.status_code == 200, answer.text
    return answer.content


def test_each_way_to_use_a_recording_speaks_differently(client: httpx.Client) -> None:
    ways: list[dict[str, Any]] = [
        {},
        {"ref_text": "So it is."},
        {"ref_text": "So it was."},
        {"instructions": "Speak fast.", "ref_text": "So it is."},
    ]
    said = [heard(client, **way) for way in ways]
    assert len({*said}) == len(ways)
    assert all(len(each) % (2 * SAMPLES_PER_TOKEN) == 0 for each in said)
    assert all(np.frombuffer(each, "<i2").std() > 10 for each in said)
    assert heard(client) == said[0]
    assert heard(client, stream_format="audio") == said[0]


@pytest.mark.slow  # the tests of the API have it with another model
def test_every_format_is_written(client: httpx.Client) -> None:
    sizes = {name: len(heard(client, response_format=name)) for name in AudioFormat}
    assert min(sizes.values()) > 500
    assert len({*sizes.values()}) > 3


@pytest.mark.slow  # the conformance suite has it without HTTP
def test_four_at_once_are_as_alone(server: RunningServer, client: httpx.Client) -> None:
    texts = [f"This is sentence number {number}." for number in range(4)]
    # Whole files, which wait for their turn on a busy machine where listeners are refused.
    alone = [heard(client, input=text, stream=False) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        together = [*pool.map(lambda text: heard(client, input=text, stream=False), texts)]
    assert together == alone
    wait_until(lambda: server.num_open == 0)


def test_a_kept_voice_speaks_as_its_recording(client: httpx.Client) -> None:
    answer = client.post(
        "/v1/audio/voices",
        data={"name": "Ann", "ref_text": "So it is.", "consent": "yes"},
        files={"audio_sample": ("ann.wav", RECORDING)},
    )
    assert answer.status_code == 200, answer.text
    kept = heard(client, voice="Ann", ref_audio=None)
    assert kept == heard(client, ref_text="So it is.")


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"ref_audio": None}, "ref_audio"),
        ({"ref_audio": None, "ref_text": "So."}, "ref_text"),
        ({"repetition_penalty": 1.2}, "repetition_penalty"),
        ({"language": "klingon"}, "language"),
        ({"instructions": "x" * 2001}, "instructions"),
    ],
)
def test_wrong_requests_name_their_field(
    client: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    answer = client.post("/v1/audio/speech", json={**SPEECH, **fields})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == param
