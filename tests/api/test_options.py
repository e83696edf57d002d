"""What only a family knows: its options go to the model, and wrong ones are named."""

import re
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tests.decoding import audio_of, error_of, events
from tests.recordings import RECORDING_URI, assert_heard_alike, data_uri, wav
from tests.servers import RunningServer, wait_until

URL = "/v1/audio/speech"
BYTES_PER_FRAME = 1920 * 2
EMBEDDING = [0.5] * 64
WORDS = "I said this."
DESCRIPTION = "A calm voice."

Start = Callable[[str], RunningServer]


def post(server: RunningServer, **body: Any) -> httpx.Response:
    short = {"input": "Hello.", "max_new_tokens": 5, "seed": 7, "response_format": "pcm"}
    response = httpx.post(f"{server.base_url}{URL}", json={**short, **body})
    assert response.status_code == 200, response.text
    return response


@pytest.mark.parametrize("task", ["custom_voice", "voice_design", "base"])
def test_every_task_warms_up(start: Start, task: str) -> None:
    server = start(task)
    wait_until(lambda: not server.state.hindrances)


REFUSED: list[tuple[str, dict[str, Any], str, str]] = [
    ("custom_voice", {"task_type": "Base"}, "task_type", "does not support task_type='Base'"),
    ("custom_voice", {"task_type": "Singing"}, "task_type", "CustomVoice, VoiceDesign, Base"),
    ("custom_voice", {"ref_text": "hi"}, "ref_text", "only valid for Base task"),
    ("custom_voice", {"ref_audio": RECORDING_URI}, "ref_audio", "only valid for Base task"),
    (
        "custom_voice",
        {"x_vector_only_mode": True},
        "x_vector_only_mode",
        "only valid for Base task",
    ),
    ("custom_voice", {"speaker_embedding": EMBEDDING}, "speaker_embedding", "only valid for Base"),
    ("custom_voice", {"non_streaming_mode": "maybe"}, "non_streaming_mode", "true or false"),
    (
        "custom_voice",
        {"initial_codec_chunk_frames": -1},
        "initial_codec_chunk_frames",
        "from 0 to",
    ),
    (
        "custom_voice",
        {"subtalker_temperature": -1},
        "subtalker_temperature",
        "0, or from 1e-06 to 100",
    ),
    ("custom_voice", {"subtalker_temperature": "hot"}, "subtalker_temperature", "a number"),
    ("custom_voice", {"subtalker_top_k": 1.5}, "subtalker_top_k", "an integer"),
    ("custom_voice", {"subtalker_top_p": 0}, "subtalker_top_p", "above 0 and at most 1"),
    ("voice_design", {}, "instructions", "requires 'instructions'"),
    ("base", {}, "ref_audio", "requires 'ref_audio' or 'speaker_embedding' for voice cloning"),
    ("base", {"ref_audio": RECORDING_URI}, "ref_text", "non-empty 'ref_text'"),
    ("base", {"ref_audio": RECORDING_URI, "ref_text": " "}, "ref_text", "non-empty 'ref_text'"),
    ("base", {"ref_text": 3, "speaker_embedding": EMBEDDING}, "ref_text", "a string"),
    ("base", {"speaker_embedding": []}, "speaker_embedding", "a non-empty list"),
    ("base", {"speaker_embedding": ["a"]}, "speaker_embedding", "a non-empty list"),
    ("base", {"speaker_embedding": [1] * 5000}, "speaker_embedding", "at most 4096"),
    ("base", {"speaker_embedding": [0.5] * 63}, "speaker_embedding", "63 values.*needs 64"),
    (
        "base",
        {"speaker_embedding": EMBEDDING, "ref_audio": RECORDING_URI},
        "speaker_embedding",
        "mutually exclusive",
    ),
    ("base", {"ref_audio": ["a", "b"], "ref_text": WORDS}, "ref_audio", "a string"),
    ("base", {"ref_audio": ["a"], "ref_text": WORDS}, "ref_audio", "data: URI"),
    ("base", {"ref_audio": "voice.wav", "ref_text": WORDS}, "ref_audio", "data: URI"),
    ("base", {"ref_audio": "data:,x", "ref_text": WORDS}, "ref_audio", "Could not decode audio"),
    ("base", {"ref_audio": "file:///etc/passwd", "ref_text": WORDS}, "ref_audio", "leads out of"),
    ("base", {"ref_audio": data_uri(wav(0.3)), "ref_text": WORDS}, "ref_audio", "too short"),
    ("base", {"ref_audio": RECORDING_URI, "top_k": -1}, "top_k", "from 0 to"),
    ("base", {"references": []}, "references", "non-empty array"),
    ("base", {"references": "x"}, "references", "not valid JSON"),
    ("base", {"references": [{}, {}]}, "references", "only supports a single reference"),
    ("base", {"references": ["x"]}, "references", "must be an object"),
    ("base", {"references": [{"text": "x"}]}, "references", "'references.0..audio_path' is req"),
    ("base", {"references": [{"audio_path": "x", "text": 1}]}, "references", "text' must be a"),
    (
        "base",
        {"references": [{"audio_path": RECORDING_URI}], "ref_audio": RECORDING_URI},
        "references",
        "mutually exclusive",
    ),
    (
        "base",
        {"references": [{"audio_path": RECORDING_URI, "text": "a"}], "ref_text": "b"},
        "references",
        "conflict",
    ),
]


@pytest.mark.parametrize(("task", "body", "param", "words"), REFUSED)
def test_wrong_options_name_their_field(
    start: Start, task: str, body: dict[str, Any], param: str, words: str
) -> None:
    url = f"{start(task).base_url}{URL}"
    for stream in (None, True, False):
        error = error_of(httpx.post(url, json={"input": "Hello.", "stream": stream, **body}), 400)
        assert (error["type"], error["param"]) == ("invalid_request_error", param)
        assert re.search(words, error["message"]), error["message"]
        assert len(error["message"]) < 300
    assert start(task).num_open == 0


def test_wrong_options_are_found_before_any_recording_is_loaded(base: RunningServer) -> None:
    body = {"input": "Hello.", "ref_audio": "https://nowhere.invalid/a.wav", "task_type": "x"}
    error = error_of(httpx.post(f"{base.base_url}{URL}", json=body), 400)
    assert error["param"] == "task_type"


def test_options_reach_the_model(start: Start) -> None:
    server = start("custom_voice")
    plain = post(server).content
    assert plain == post(server, task_type="CustomVoice", non_streaming_mode=True).content
    changes: list[dict[str, Any]] = [
        {"non_streaming_mode": False},
        {"subtalker_temperature": 0},
        {"top_k": 1},
    ]
    for change in changes:
        assert post(server, **change).content != plain, change


def test_members_that_the_family_does_not_know_are_ignored(
    start: Start, server: RunningServer
) -> None:
    strange = {"some_vendors_own": {"x": 1}, "references_2": []}
    described = {"instructions": DESCRIPTION}
    designer = start("voice_design")
    assert post(designer, **described, **strange).content == post(designer, **described).content
    of_another_family = {"ref_text": 3, "task_type": 4, "non_streaming_mode": 5}
    assert post(server, **of_another_family).content == post(server).content


@pytest.mark.parametrize("task", ["custom_voice", "voice_design", "base"])
def test_a_temperature_of_zero_is_greedy_and_a_top_k_of_zero_keeps_all(
    start: Start, task: str
) -> None:
    needs: dict[str, dict[str, Any]] = {
        "custom_voice": {},
        "voice_design": {"instructions": DESCRIPTION},
        "base": {"speaker_embedding": EMBEDDING},
    }
    server, needed = start(task), needs[task]
    greedy = post(server, **needed, temperature=0).content
    assert greedy == post(server, **needed, temperature=0, seed=8).content
    drawn = post(server, **needed, top_k=0).content
    assert drawn == post(server, **needed, top_k=0).content
    assert drawn not in (greedy, post(server, **needed, top_k=0, seed=8).content)


def test_the_first_chunk_is_as_long_as_was_asked_for(start: Start) -> None:
    server = start("custom_voice")
    plain = post(server, stream=True)
    for wanted in (3, 4):
        asked = post(server, stream=True, initial_codec_chunk_frames=wanted)
        assert_heard_alike(audio_of(events(plain.text)), audio_of(events(asked.text)))
        assert num_first_frames(asked) == wanted
    assert num_first_frames(plain) in range(1, 5)  # 1, unless that has gaps on this machine


def num_first_frames(streamed: httpx.Response) -> int:
    """Return the frames of a stream's first event, whatever its type."""
    first = {**events(streamed.text)[0], "type": "speech.audio.delta"}
    return len(audio_of([first])) // BYTES_PER_FRAME
