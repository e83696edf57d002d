"""Every field that another server has for speech is served, without effect, or refused."""

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from openai.types.audio.speech_create_params import SpeechCreateParams

from antiphon.api.schemas.field_rules import Unserved, field_classes
from antiphon.api.schemas.kokoro import KokoroMembers
from antiphon.api.schemas.peer_fields import CLONING_FIELDS, SpeechPeerFields
from antiphon.api.schemas.speech import SpeechBody
from antiphon.api.schemas.speech_ws import SessionConfig
from antiphon.families.qwen3_tts.options import Qwen3TTSOptions
from tests.api.speech_talks import opened, say
from tests.decoding import error_of
from tests.servers import RunningServer
from tests.sockets import audio, messages

URL = "/v1/audio/speech"
SHORT = {"input": "Hello.", "max_new_tokens": 6, "response_format": "pcm"}
VLLM_OMNI = {
    *("input", "model", "voice", "speaker", "instructions", "response_format", "sample_rate"),
    *("speed", "stream", "stream_format", "task_type", "language", "ref_audio", "ref_text"),
    *("ref_audio_2", "ambient_sound", "duration_seconds", "x_vector_only_mode"),
    *("speaker_embedding", "max_new_tokens", "seed", "initial_codec_chunk_frames"),
    *("non_streaming_mode", "extra_params", "word_timestamps", "references", "ref_audio_codes"),
    *("messages", "reference_audio", "voice_prompt", "speaker_audio", "speakers"),
}
VLLM_OMNI_SOCKET = VLLM_OMNI - {"input", "stream", "stream_format"} | {
    *("stream_audio", "split_granularity", "text_input_mode", "streaming_mode"),
}
SGLANG_OMNI = {
    *("input", "model", "voice", "speaker", "response_format", "speed", "stream", "stream_format"),
    *("task_type", "language", "instructions", "ref_audio", "ref_text", "references"),
    *("x_vector_only_mode", "stream_codec_output", "suppress_bootstrap_silence", "token_count"),
    *("duration_tokens", "initial_codec_chunk_frames", "max_new_tokens", "temperature", "top_p"),
    *("top_k", "repetition_penalty", "seed", "stage_params"),
}
QWEN_TTS = {"do_sample", "subtalker_dosample", "subtalker_top_k", "subtalker_top_p"}
OFF: dict[str, list[Any]] = {
    "text_input_mode": ["buffered"],
    "streaming_mode": ["token_level"],
    "stream_codec_output": [False],
    "duration_seconds": [0, 0.0],
    "token_count": [0],
    "ambient_sound": [""],
    "stage_params": [{}],
    "ref_audio": [""],
    "x_vector_only_mode": [False],
}
UNSERVED = [n for n, kind in field_classes(SpeechPeerFields).items() if kind == "unserved"]


@pytest.mark.parametrize(
    ("model", "fields"),
    [
        (SpeechBody, SpeechCreateParams.__required_keys__ | SpeechCreateParams.__optional_keys__),
        (SpeechBody, VLLM_OMNI | SGLANG_OMNI | QWEN_TTS),
        (SessionConfig, VLLM_OMNI_SOCKET),
    ],
)
def test_every_field_of_others_is_known(model: type[SpeechBody], fields: set[str]) -> None:
    known = {*field_classes(model), *KokoroMembers.model_fields}
    known |= {*Qwen3TTSOptions.model_fields, *CLONING_FIELDS}
    assert fields <= known


@pytest.mark.parametrize("name", [*UNSERVED, *CLONING_FIELDS])
def test_a_field_that_would_change_the_audio_is_refused_unless_it_is_off(
    client: httpx.Client, name: str
) -> None:
    error = error_of(client.post(URL, json={**SHORT, name: "x"}), 400)
    assert (error["param"], error["code"]) == (name, "not_supported")
    assert error["message"].startswith(f"'{name}' is not supported here. ")
    for off in (None, *OFF.get(name, ())):
        plain = client.post(URL, json={**SHORT, "seed": 1})
        answer = client.post(URL, json={**SHORT, "seed": 1, name: off})
        assert (answer.status_code, answer.content) == (200, plain.content), (off, answer.text)
        assert "x-ignored-fields" not in answer.headers
        form = httpx.post(
            f"{client.base_url}{URL}",
            files={**{k: (None, str(v)) for k, v in SHORT.items()}, name: (None, _as_form(off))},
        )
        assert form.status_code == 200, form.text


def _as_form(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)


def test_off_values_are_compared_with_their_type() -> None:
    rule = Unserved("", (0,))
    assert [rule.is_off(each) for each in (0, 0.0, "0", False, "false", 1)] == [
        *(True, True, True),
        *(False, False, False),
    ]
    rule = Unserved("", (False,))
    assert [rule.is_off(each) for each in (False, "False", 0, "0", "x" * 99)] == [
        *(True, True),
        *(False, False, False),
    ]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("suppress_bootstrap_silence", "maybe"),
        ("download_format", 7),
        ("voice", {"id": "alto", "pitch": 3}),
        ("normalization_options", {"normalise": True}),
        ("normalization_options", {"url_normalization": False}),
    ],
)
def test_fields_without_effect_and_nested_ones_are_checked(
    client: httpx.Client, field: str, value: Any
) -> None:
    error = error_of(client.post(URL, json={**SHORT, field: value}), 400)
    assert error["param"].startswith(field)


def test_items_and_chapters_are_checked_as_requests_are(client: httpx.Client) -> None:
    items = [{"input": "Hello.", "mood": "good"}, {"input": "Hello.", "ambient_sound": "rain"}]
    answer = client.post(f"{URL}/batch", json={"items": items, "stream_codec_output": False})
    assert answer.headers["x-ignored-fields"] == "mood"
    fine, wrong = answer.json()["results"]
    assert fine["status"] == "success"
    assert wrong["error_details"]["error"]["param"] == "ambient_sound"
    shared = client.post(f"{URL}/batch", json={"items": items, "stage_params": {"a": 1}})
    assert error_of(shared, 400)["param"] == "stage_params"
    for body, param in (
        ({"input": "Hello.", "ref_audio_2": "x"}, "ref_audio_2"),
        ({"chapters": [{"input": "Hello.", "titel": "One"}]}, "chapters.0.titel"),
    ):
        assert error_of(client.post(f"{URL}/jobs", json=body), 400)["param"] == param


def test_a_socket_takes_what_its_clients_send_and_names_what_it_does_not_know(
    server: RunningServer,
) -> None:
    fine = {"text_input_mode": "commitment", "streaming_mode": "token_level", "speed": None}
    with opened(server, stream_codec_output=False, **fine) as talk:
        say(talk, "Hello.")
        assert audio(talk.until("session.done"))
        for wrong, named in (
            ({"splitgranularity": "clause"}, "'split_granularity'"),
            ({"text_input_mode": "never"}, "buffered, commitment"),
            ({"ambient_sound": "rain"}, "No model here makes sounds"),
        ):
            talk.send("session.config", **wrong)
            error = messages(talk.until("error"))[-1]["error"]
            assert error["param"] == next(iter(wrong))
            assert named in error["message"]
        say(talk, "Hello.")
        assert audio(talk.until("session.done")), "the session goes on as it was configured"


def test_greedy_requests_do_not_depend_on_the_seed(start: Callable[[str], RunningServer]) -> None:
    """``do_sample`` is the talker's alone, as in the official package."""
    url = f"{start('custom_voice').base_url}{URL}"

    def made(**body: Any) -> bytes:
        answer = httpx.post(url, json={**SHORT, **body}, timeout=60)
        assert answer.status_code == 200, answer.text
        assert "x-ignored-fields" not in answer.headers
        return answer.content

    greedy = {"do_sample": False, "subtalker_dosample": False}
    assert made(**greedy, seed=1) == made(**greedy, seed=2, temperature=1.5)
    assert made(**greedy, seed=1) == made(temperature=0, seed=3)
    assert made(do_sample=False, seed=1) == made(top_k=1, seed=1)
    assert made(do_sample=False, seed=1) != made(do_sample=False, seed=2)
    assert made(subtalker_dosample=False, seed=1) == made(subtalker_temperature=0, seed=1)
    assert made(do_sample=True, subtalker_dosample=True, seed=1) == made(seed=1)
    assert made(extra_params=greedy, seed=1) == made(**greedy, seed=9)


def test_greedy_requests_of_other_families(client: httpx.Client) -> None:
    body = {**SHORT, "do_sample": False, "temperature": 1}
    answers = [client.post(URL, json={**body, "seed": seed}).content for seed in (1, 2)]
    assert answers[0] == answers[1]
    assert answers[0] == client.post(URL, json={**SHORT, "temperature": 0, "seed": 3}).content


@pytest.mark.parametrize("value", [-5, -100, True, "loud", "nan", []])
def test_a_loudness_that_cannot_be_is_refused_by_one_message(
    server: RunningServer, value: object
) -> None:
    refused = httpx.post(f"{server.base_url}{URL}", json=SHORT | {"loudness_lufs": value})
    error = error_of(refused, 400)
    assert error["param"] == "loudness_lufs"
    assert "a number from -40 to -9, or 'off'" in error["message"]


@pytest.mark.parametrize("value", [-20, "off", None])
def test_a_voice_of_unknown_loudness_is_never_changed(server: RunningServer, value: object) -> None:
    plain = httpx.post(f"{server.base_url}{URL}", json=SHORT | {"seed": 1})
    asked = httpx.post(f"{server.base_url}{URL}", json=SHORT | {"seed": 1, "loudness_lufs": value})
    assert asked.status_code == 200
    assert asked.content == plain.content
