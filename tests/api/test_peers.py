"""Requests as clients of vLLM-Omni and its kin send them: understood, or told why not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon.config import ModelSettings, Settings, SpeechSettings
from antiphon.families.registry import further_names
from tests.decoding import error_of
from tests.recordings import RECORDING, RECORDING_URI
from tests.servers import TOY, RunningServer, start_server

Start = Callable[[str], RunningServer]

URL = "/v1/audio/speech"
IGNORED = "x-ignored-fields"
EMBEDDING = [0.5] * 64
SHORT = {"input": "Hello.", "max_new_tokens": 4, "seed": 7, "response_format": "pcm"}
VOICE_OF_ITS_OWN: list[tuple[str, dict[str, Any]]] = [
    ("base", {"ref_audio": RECORDING_URI, "ref_text": "I said this."}),
    ("base", {"ref_audio": [RECORDING_URI], "x_vector_only_mode": True}),
    ("base", {"speaker_embedding": EMBEDDING}),
    ("base", {"speaker_embedding": [EMBEDDING]}),
    ("voice_design", {"instructions": "A calm voice."}),
]


def post(server: RunningServer, path: str = URL, **body: Any) -> httpx.Response:
    return httpx.post(f"{server.base_url}{path}", json={**SHORT, **body}, timeout=60)


@pytest.mark.parametrize(("task", "fields"), VOICE_OF_ITS_OWN)
@pytest.mark.parametrize("path", [URL, f"{URL}/batch", f"{URL}/jobs"])
def test_a_name_means_nothing_beside_a_voice_that_the_request_brings(
    start: Start, task: str, fields: dict[str, Any], path: str
) -> None:
    server = start(task)
    more = {"items": [{"input": "Hello."}]} if path.endswith("batch") else {}
    plain = post(server, path, **fields, **more)
    named = post(server, path, **fields, **more, voice="vivian")
    assert plain.status_code == named.status_code == (202 if path.endswith("jobs") else 200)
    if path == URL:
        assert named.content == plain.content
    elif path.endswith("batch"):
        assert named.json()["results"] == plain.json()["results"]
    else:
        for job in (plain, named):
            httpx.delete(f"{server.base_url}{path}/{job.json()['id']}")


def test_a_name_that_is_all_there_is_must_be_known(start: Start) -> None:
    for task in ("base", "custom_voice"):
        error = error_of(post(start(task), voice="nobody"), 404)
        assert (error["param"], error["code"]) == ("voice", "voice_not_found")
        assert error["message"].startswith("There is no voice 'nobody'. Available: ")


def test_an_uploaded_voice_is_among_those_that_are_told(base: RunningServer) -> None:
    url = f"{base.base_url}/v1/audio/voices"
    upload = {"name": "Zoë of the peers", "ref_text": "I said this."}
    made = httpx.post(url, data=upload, files={"audio_sample": ("a.wav", RECORDING)})
    assert made.status_code == 200, made.text
    try:
        assert "Zoë of the peers" in error_of(post(base, voice="nobody"), 404)["message"]
    finally:
        httpx.delete(f"{url}/{made.json()['id']}")


@pytest.mark.parametrize(
    ("task", "fields", "param"),
    [
        ("custom_voice", {"task_type": "Base", "ref_audio": RECORDING_URI}, "task_type"),
        ("custom_voice", {"ref_audio": "https://nowhere.invalid/a.wav"}, "ref_audio"),
        ("base", {"task_type": "CustomVoice"}, "task_type"),
        ("voice_design", {"task_type": "CustomVoice"}, "task_type"),
    ],
)
def test_a_task_that_the_checkpoint_lacks_is_told_before_the_voice_is_looked_at(
    start: Start, task: str, fields: dict[str, Any], param: str
) -> None:
    for path, more in (
        (URL, {}),
        (f"{URL}/batch", {"items": [{"input": "x"}]}),
        (f"{URL}/jobs", {}),
    ):
        error = error_of(post(start(task), path, voice="nobody", **fields, **more), 400)
        assert error["param"] == param
        assert "checkpoint" in error["message"]


def test_what_stands_in_extra_params_counts_as_if_it_stood_beside(start: Start) -> None:
    server = start("custom_voice")
    cold: dict[str, Any] = {"temperature": 0, "subtalker_temperature": 0.0, "top_k": 3}
    beside = post(server, **cold)
    within = post(server, extra_params=cold)
    assert beside.status_code == within.status_code == 200, within.text
    assert within.content == beside.content != post(server).content
    assert post(server, **cold, extra_params=cold).content == beside.content
    assert post(server, extra_params=None).status_code == 200
    form = {**{name: str(value) for name, value in SHORT.items()}, "extra_params": '{"top_k": 1}'}
    parts = {name: (None, value) for name, value in form.items()}
    answer = httpx.post(f"{server.base_url}{URL}", files=parts, timeout=60)
    assert answer.content == post(server, top_k=1).content


@pytest.mark.parametrize(
    ("extra", "param", "words"),
    [
        ({"cfg_scale": 3}, "extra_params.cfg_scale", "Unknown parameter"),
        ({"voice": "vivian"}, "extra_params.voice", "must stand beside"),
        ({"top_k": "many"}, "top_k", "an integer"),
        ({"seed": 8}, "extra_params.seed", "differ"),
        ([1], "extra_params", "an object"),
    ],
)
def test_what_makes_no_sense_in_extra_params_is_refused(
    start: Start, extra: Any, param: str, words: str
) -> None:
    error = error_of(post(start("custom_voice"), extra_params=extra), 400)
    assert error["param"] == param
    assert words in error["message"]


def test_more_frames_than_the_context_holds_are_refused(start: Start) -> None:
    for task, fields in VOICE_OF_ITS_OWN:
        error = error_of(post(start(task), **{**fields, "max_new_tokens": 5000}), 400)
        assert error["param"] == "max_new_tokens"
        assert "to 4096" in error["message"]


def test_fields_that_nobody_knows_are_told(client: httpx.Client) -> None:
    body = {"input": "Hello.", "user": "me", "ref_text": "x", "a\r\nb, c": 1}
    for stream in (None, True, False):
        response = client.post(URL, json={**body, "stream": stream})
        assert response.headers[IGNORED] == "user, ref_text, a%0D%0Ab%2C%20c"
    assert IGNORED not in client.post(URL, json={"input": "Hello.", "voice": None}).headers
    batch = client.post(f"{URL}/batch", json={"items": [{"input": "Hi."}], "user": "me"})
    assert batch.headers[IGNORED] == "user"
    job = client.post(f"{URL}/jobs", json={"input": "Hi.", "user": "me"})
    assert job.headers[IGNORED] == "user"
    client.delete(f"{URL}/jobs/{job.json()['id']}")


def test_fields_that_nobody_knows_may_be_refused() -> None:
    settings = TOY.model_copy(update={"speech": SpeechSettings(unknown_fields="refuse")})
    with start_server(settings) as server:
        for path, more in ((URL, {}), (f"{URL}/batch", {"items": [{"input": "x"}]})):
            error = error_of(post(server, path, **more, usr="me"), 400)
            assert (error["param"], error["code"]) == ("usr", "unknown_field")
        assert post(server).status_code == 200


def test_a_model_answers_to_whatever_it_was_started_as(
    checkpoint: Callable[[Any, str], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = checkpoint("tiny", "custom_voice")
    link = tmp_path / "Qwen3-TTS-link"
    link.symlink_to(path)
    monkeypatch.chdir(tmp_path)
    settings = Settings(model=ModelSettings(source="./Qwen3-TTS-link", device="cpu"))
    with start_server(settings) as server:
        listed = httpx.get(f"{server.base_url}/v1/models").text
        assert str(path.parent) not in listed
        names = ("./Qwen3-TTS-link", "Qwen3-TTS-link", str(link), f"{link}/", str(path), path.name)
        for name in names:
            assert post(server, model=name).status_code == 200, name
        for name in ("/etc", str(path.parent), f"other/{path.name}"):
            told = error_of(post(server, model=name), 404)["message"]
            assert told.endswith(
                f"Available: {path.name}, tts-1, tts-1-hd, gpt-4o-mini-tts, kokoro."
            )


def test_a_checkpoint_of_the_hub_answers_to_its_id(tmp_path: Path) -> None:
    names = further_names("Qwen/Qwen3-TTS-12Hz-1.7B-Base@main", tmp_path)
    assert {
        *("Qwen/Qwen3-TTS-12Hz-1.7B-Base@main", "Qwen/Qwen3-TTS-12Hz-1.7B-Base"),
        *("Qwen3-TTS-12Hz-1.7B-Base", str(tmp_path)),
    } <= names
    cached = tmp_path / "models--Qwen--Qwen3-TTS-12Hz-1.7B-Base" / "snapshots" / "0123abcd"
    cached.mkdir(parents=True)
    names = further_names(str(cached), cached)
    assert {"Qwen/Qwen3-TTS-12Hz-1.7B-Base", "Qwen3-TTS-12Hz-1.7B-Base", str(cached)} <= names


def test_what_is_wrong_beside_the_items_of_a_batch_is_an_error_of_the_request(
    start: Start,
) -> None:
    server = start("custom_voice")
    items: list[dict[str, Any]] = [{"input": "One."}, {"input": "Two."}]
    wrong: list[tuple[dict[str, Any], int, str]] = [
        ({"speed": 9}, 400, "speed"),
        ({"response_format": "wma"}, 400, "response_format"),
        ({"task_type": "Base"}, 400, "task_type"),
        ({"voice": "nobody"}, 404, "voice"),
        ({"model": "nothing"}, 404, "model"),
        ({"language": "klingon"}, 400, "language"),
        ({"max_new_tokens": 5000}, 400, "max_new_tokens"),
    ]
    for shared, status, param in wrong:
        error = error_of(post(server, f"{URL}/batch", items=items, **shared), status)
        assert error["param"] == param
        own = [{**item, **fine} for item, fine in zip(items, [{}, {param: None}], strict=True)]
        assert error_of(post(server, f"{URL}/batch", items=own, **shared), status)["param"] == param
    fine = {"speed": 1, "voice": server.state.speech.model(None).capabilities.voices[0].id}
    for item in items:
        item.update(fine)
    answer = post(server, f"{URL}/batch", items=items, voice="nobody", speed=9)
    assert answer.json()["succeeded"] == 2, "what every item says itself means nothing beside them"
    mixed = post(server, f"{URL}/batch", items=[items[0], {"input": "x", "speed": 9}])
    assert (mixed.status_code, mixed.json()["failed"]) == (200, 1)
