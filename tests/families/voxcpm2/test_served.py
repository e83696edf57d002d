"""Over HTTP: every format, listeners side by side, voices in every way of bringing them."""

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, Settings
from antiphon.formats import AudioFormat
from tests.decoding import error_of
from tests.recordings import RECORDING, RECORDING_URI, data_uri, wav
from tests.servers import RunningServer, start_server, wait_until

BODY: dict[str, Any] = {"input": "Hello there.", "seed": 7, "max_new_tokens": 7}
WORDS = "I said this."


@pytest.fixture(scope="module")
def server(endless: Path) -> Generator[RunningServer, None, None]:
    model = ModelSettings(source=str(endless), name="vox", device="cpu", max_slots=4)
    with start_server(Settings(model=model)) as running:
        yield running


def post(client: httpx.Client, **fields: Any) -> httpx.Response:
    return client.post("/v1/audio/speech", json={**BODY, "response_format": "pcm", **fields})


def heard(client: httpx.Client, **fields: Any) -> bytes:
    answer = post(client, **fields)
    assert answer.status_code == 200, answer.text
    return answer.content


def test_every_format_and_a_stream_that_is_the_whole(client: httpx.Client) -> None:
    for kind in AudioFormat:
        assert heard(client, response_format=kind.value)
    whole = heard(client, stream=False)
    assert whole == heard(client) == heard(client, voice="alloy")
    assert len(whole) == 6 * 1920 * 2  # frames, samples of each, bytes of each
    assert whole != heard(client, seed=8)


def test_requests_of_every_kind_side_by_side_are_as_alone(client: httpx.Client) -> None:
    kinds: list[dict[str, Any]] = [
        {},
        {"instructions": "A calm voice", "cfg_value": 3.0},
        {"ref_audio": RECORDING_URI},
        {"ref_audio": RECORDING_URI, "instructions": "Slowly"},
        {"ref_audio": RECORDING_URI, "ref_text": WORDS, "inference_timesteps": 4},
        {"prompt_audio": data_uri(wav(seed=1)), "prompt_text": WORDS},
    ]
    # Whole files, which wait for their turn on a busy machine where listeners are refused.
    alone = [heard(client, stream=False, **each) for each in kinds]
    with ThreadPoolExecutor(len(kinds)) as threads:
        together = [*threads.map(lambda each: heard(client, stream=False, **each), kinds)]
    assert together == alone
    assert len({*alone}) == len(kinds)


def test_an_uploaded_voice_is_its_recording(client: httpx.Client) -> None:
    url = "/v1/audio/voices"
    fields = {"name": "Ann", "ref_text": WORDS}
    made = client.post(url, data=fields, files={"audio_sample": ("a.wav", RECORDING, "audio/wav")})
    assert made.status_code == 200, made.text
    expected = heard(client, ref_audio=RECORDING_URI, ref_text=WORDS)
    assert heard(client, voice="Ann") == expected
    form = {key: str(value) for key, value in BODY.items()}
    form |= {"response_format": "pcm", "ref_text": WORDS}
    files = {"ref_audio": ("a.wav", RECORDING, "audio/wav")}
    assert client.post("/v1/audio/speech", data=form, files=files).content == expected
    assert client.delete(f"{url}/{made.json()['id']}").status_code == 200


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"cfg_value": 11}, "cfg_value"),
        ({"inference_timesteps": 1}, "inference_timesteps"),
        ({"ref_text": WORDS}, "ref_text"),
        ({"prompt_text": WORDS}, "prompt_audio"),
        ({"ref_audio": "data:audio/wav;base64,AAAA"}, "ref_audio"),
        ({"ref_audio": RECORDING_URI, "ref_text": WORDS, "instructions": "a"}, "instructions"),
        ({"language": "klingon"}, "language"),
    ],
)
def test_wrong_requests_name_their_field(
    fields: dict[str, Any], param: str, client: httpx.Client
) -> None:
    assert error_of(post(client, **fields), 400)["param"] == param


def test_a_listener_who_leaves_frees_all(server: RunningServer, client: httpx.Client) -> None:
    body = {**BODY, "input": "Long. " * 100, "max_new_tokens": 4000, "response_format": "pcm"}
    with client.stream("POST", "/v1/audio/speech", json=body) as answer:
        next(answer.iter_raw())
    wait_until(lambda: server.num_open == 0)
