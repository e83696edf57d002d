"""Voices of families over HTTP: in every format, side by side, of recordings and kept."""

from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, Settings
from antiphon.formats import AudioFormat
from tests.families.kokoro.layouts import make_export
from tests.families.whole_checkpoints import maker_of
from tests.recordings import RECORDING, RECORDING_URI, data_uri, wav
from tests.servers import RunningServer, start_server, wait_until

Fields = dict[str, Any]
URL = "/v1/audio/speech"
WORDS = "So it is."
CLONED: Fields = {"ref_audio": RECORDING_URI, "ref_text": WORDS}


@dataclass(frozen=True)
class Served:
    """What a family is asked over HTTP.

    Attributes:
        make: function that writes its checkpoint into a folder.
        body: members of every request.
        uses: members of requests that all speak differently.
        wrong: members of requests that are refused, with the member that is named.
    """

    make: Callable[[Path], None]
    body: Fields
    uses: tuple[Fields, ...]
    wrong: tuple[tuple[Fields, str], ...]


SERVED = {
    "cosyvoice3": Served(
        lambda path: maker_of("cosyvoice3")(path, size="tiny", task="base"),
        {"max_new_tokens": 61, "ref_audio": RECORDING_URI},
        (
            {},
            {"ref_text": WORDS},
            {"ref_text": "So it was."},
            {"instructions": "Speak fast.", "ref_text": WORDS},
        ),
        (
            ({"ref_audio": None}, "ref_audio"),
            ({"ref_audio": None, "ref_text": WORDS}, "ref_text"),
            ({"repetition_penalty": 1.2}, "repetition_penalty"),
            ({"language": "klingon"}, "language"),
            ({"instructions": "x" * 2001}, "instructions"),
        ),
    ),
    "fish_speech": Served(
        lambda path: maker_of("fish_speech")(path, size="tiny", task="s1"),
        {"max_new_tokens": 8},
        ({}, {"seed": 8}, CLONED),
        (
            ({"ref_audio": RECORDING_URI}, "ref_text"),
            ({"ref_text": WORDS}, "ref_text"),
            ({"repetition_penalty": 1.5}, "repetition_penalty"),
            ({"language": "en"}, "language"),
            ({"voice": "Bob"}, "voice"),
        ),
    ),
    "voxcpm2": Served(
        lambda path: maker_of("voxcpm2")(path),
        {"max_new_tokens": 7, "ignore_eos": True},
        (
            {},
            {"seed": 8},
            {"instructions": "A calm voice", "cfg_value": 3.0},
            {"ref_audio": RECORDING_URI},
            {"ref_audio": RECORDING_URI, "instructions": "Slowly"},
            {**CLONED, "inference_timesteps": 4},
            {"prompt_audio": data_uri(wav(seed=1)), "prompt_text": WORDS},
        ),
        (
            ({"cfg_value": 11}, "cfg_value"),
            ({"inference_timesteps": 1}, "inference_timesteps"),
            ({"ref_text": WORDS}, "ref_text"),
            ({"prompt_text": WORDS}, "prompt_audio"),
            ({"ref_audio": "data:audio/wav;base64,AAAA"}, "ref_audio"),
            ({**CLONED, "instructions": "a"}, "instructions"),
            ({"language": "klingon"}, "language"),
        ),
    ),
    "kokoro": Served(
        make_export,
        {"voice": "af_heart"},
        tuple(
            {"voice": voice}
            for voice in (
                *("af_heart", "af_sky", "am_adam", "bf_emma"),
                *("af_heart+af_sky", "af_heart(3)+af_sky(1)"),
            )
        ),
        (
            ({"voice": "af_nobody"}, "voice"),
            ({"voice": "af_heart+af_nobody"}, "voice"),
            ({"voice": "af_heart(0)+af_sky(0)"}, "voice"),
            ({"voice": "jf_alpha"}, "voice"),
            ({"lang_code": "j"}, "lang_code"),
            ({"language": "klingon"}, "language"),
        ),
    ),
}
SLOW = pytest.mark.slow  # the conformance suite speaks without a server
ALIKE = [pytest.param(name, marks=SLOW) for name in ("cosyvoice3", "fish_speech")]


@pytest.fixture(scope="module")
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[RunningServer, None, None]:
    path = tmp_path_factory.mktemp(request.param)
    SERVED[request.param].make(path)
    model = ModelSettings(source=str(path), name=request.param, device="cpu", max_slots=4)
    with start_server(Settings(model=model)) as running:
        yield running


def model_of(client: httpx.Client) -> str:
    return str(client.get("/v1/models").json()["data"][0]["id"])


def post(client: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"input": "Hello there.", "seed": 7, "response_format": "pcm"}
    return client.post(URL, json={**body, **SERVED[model_of(client)].body, **fields})


def audio(client: httpx.Client, **fields: Any) -> bytes:
    answer = post(client, **fields)
    assert answer.status_code == 200, answer.text
    return answer.content


@pytest.mark.slow  # the tests of the API have it with another model
@pytest.mark.parametrize("server", SERVED, indirect=True)
def test_every_format_is_written_and_a_stream_is_the_whole(client: httpx.Client) -> None:
    assert all(audio(client, response_format=each) for each in AudioFormat)
    assert audio(client, stream=False) == audio(client) == audio(client, stream_format="audio")


@pytest.mark.parametrize("server", ["voxcpm2", "kokoro", *ALIKE], indirect=True)
def test_requests_of_every_kind_side_by_side_are_as_alone(
    server: RunningServer, client: httpx.Client
) -> None:
    # Whole files, which wait for their turn on a busy machine where listeners are refused.
    uses = [{**each, "stream": False} for each in SERVED[model_of(client)].uses]
    alone = [audio(client, **each) for each in uses]
    with ThreadPoolExecutor(len(uses)) as pool:
        assert [*pool.map(lambda each: audio(client, **each), uses)] == alone
    assert len({*alone}) == len(uses)
    wait_until(lambda: server.num_open == 0)


@pytest.mark.parametrize("server", ["voxcpm2", *ALIKE], indirect=True)
def test_a_kept_voice_speaks_as_its_recording(client: httpx.Client) -> None:
    file = ("a.wav", RECORDING, "audio/wav")
    fields = {"name": "Ann", "ref_text": WORDS, "consent": "yes"}
    made = client.post("/v1/audio/voices", data=fields, files={"audio_sample": file})
    assert made.status_code == 200, made.text
    expected = audio(client, **CLONED)
    assert audio(client, voice="Ann", ref_audio=None) == expected
    assert client.delete(f"/v1/audio/voices/{made.json()['id']}").status_code == 200


@pytest.mark.parametrize(
    ("server", "fields", "param"),
    [
        pytest.param(name, *each, marks=SLOW if name in ("cosyvoice3", "fish_speech") else ())
        for name, served in SERVED.items()
        for each in served.wrong
    ],
    indirect=["server"],
    ids=lambda value: str(value)[:40],
)
def test_wrong_requests_name_their_field(client: httpx.Client, fields: Fields, param: str) -> None:
    answer = post(client, **fields)
    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["error"]["param"] == param


@pytest.mark.parametrize("server", ["voxcpm2"], indirect=True)
def test_a_listener_who_leaves_frees_all(server: RunningServer, client: httpx.Client) -> None:
    body = {"input": "Long. " * 100, "max_new_tokens": 4000, "ignore_eos": True}
    with client.stream("POST", URL, json={**body, "response_format": "pcm"}) as answer:
        next(answer.iter_raw())
    wait_until(lambda: server.num_open == 0)
