"""What Kokoro-FastAPI's clients send: its names, its members, its tags, its endpoints."""

import base64
import json
from typing import Any

import httpx
import numpy as np
import pytest
from numpy.typing import NDArray

URL = "/v1/audio/speech"


def pcm(client: httpx.Client, text: str = "Hello there.", **fields: Any) -> NDArray[np.int16]:
    body = {"model": "kokoro", "input": text, "seed": 1, "response_format": "pcm", **fields}
    answer = client.post(URL, json=body)
    assert answer.status_code == 200, answer.text
    return np.frombuffer(answer.content, "<i2")


def refused(client: httpx.Client, url: str = URL, **fields: Any) -> dict[str, Any]:
    answer = client.post(url, json={"input": "Hello there.", **fields})
    assert answer.status_code in (400, 404), answer.text
    error: dict[str, Any] = answer.json()["error"]
    return error


def same(one: NDArray[np.int16], other: NDArray[np.int16]) -> bool:
    return np.array_equal(one, other)


def test_its_names_are_known(client: httpx.Client) -> None:
    alto = pcm(client, voice="alto")
    for name in ("af_alto", "AM_ALTO", "af_bella(2)+af_alto(1)", "af_alto+af_sine"):
        assert same(pcm(client, voice=name), alto)
    error = refused(client, voice="af_bella+af_sky")
    assert (error["param"], error["code"]) == ("voice", "voice_not_found")
    assert "alto" in error["message"]
    assert client.get("/v1/models/kokoro").json()["id"] == "toy"


def test_its_list_of_voices_in_both_shapes(client: httpx.Client) -> None:
    listed = client.get("/v1/audio/voices").json()["voices"]
    assert listed == [{"id": each, "name": each.title()} for each in ("sine", "alto", "bass")]
    legacy = client.get("/v1/audio/voices?legacy=true").json()
    assert legacy == {"voices": ["sine", "alto", "bass"]}
    assert client.get("/v1/test").json() == {"status": "ok"}


def test_a_rate_holds_from_its_tag_on(client: httpx.Client) -> None:
    heard = pcm(client, "Hello there. [rate:2] Hello there. [rate: 0.5 ] Hello there.")
    fast, slow = (pcm(client, speed=speed) for speed in (2.0, 0.5))
    assert same(heard, np.concatenate([pcm(client), fast, slow]))


def test_a_voice_speaks_from_its_tag_on_and_sets_the_rate_back(client: httpx.Client) -> None:
    text = "Hello there. [voice:af_alto][rate:2] Hello there. [VOICE: bass] Hello there."
    alto, bass = pcm(client, voice="alto", speed=2.0), pcm(client, voice="bass")
    assert same(pcm(client, text), np.concatenate([pcm(client), alto, bass]))


def test_tags_are_text_where_the_client_says_so(client: httpx.Client) -> None:
    text = "[voice:nobody] Hello."
    assert same(pcm(client, text, allow_voice_tags=False), pcm(client, r"\[voice:nobody] Hello."))
    assert len(pcm(client, text, allow_voice_tags=False)) > len(pcm(client, "Hello."))
    assert refused(client, input=text)["code"] == "voice_not_found"


def test_pauses_between_tags_are_heard(client: httpx.Client) -> None:
    tagged = pcm(client, "[pause:1s][rate:2][pause:1s] Hello there. [rate:3] [pause:1s]")
    plain = pcm(client, "[pause:2s] Hello there. [pause:1s]", speed=2.0)
    assert same(tagged, plain)


@pytest.mark.parametrize("delivery", [{"stream": False}, {"stream_format": "sse"}])
def test_tags_work_however_the_audio_travels(
    client: httpx.Client, delivery: dict[str, Any]
) -> None:
    text = "Hello. [rate:2] Hello."
    body = {"input": text, "seed": 1, "response_format": "pcm"}
    answer = client.post(URL, json={**body, **delivery}).content
    audio = answer
    if "stream_format" in delivery:
        lines = [line[6:] for line in answer.decode().splitlines() if line.startswith("data: ")]
        found = [json.loads(line) for line in lines]
        audio = b"".join(base64.b64decode(each.get("audio", "")) for each in found)
    assert audio == pcm(client, text).tobytes()


@pytest.mark.parametrize("text", ["[rate:9] Hi.", "[rate:x] Hi.", "[rate:] Hi.", "[voice:] Hi."])
def test_wrong_tags_are_told(client: httpx.Client, text: str) -> None:
    error = refused(client, input=text)
    assert error["param"] == "input"
    assert "[" in error["message"]


def test_tags_without_a_text_are_empty(client: httpx.Client) -> None:
    assert refused(client, input="[rate:2] [voice:alto]")["param"] == "input"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"return_download_link": True}, "return_download_link"),
        ({"return_timing": True}, "return_timing"),
        ({"ssml": True}, "ssml"),
        ({"voice_aliases": {"a": "b"}}, "voice_aliases"),
        ({"volume_multiplier": -1}, "volume_multiplier"),
        ({"volume_multiplier": "loud"}, "volume_multiplier"),
        ({"lang_code": "z"}, "lang_code"),
        ({"lang_code": "a", "language": "english"}, "lang_code"),
        ({"normalization_options": {"normalize": "perhaps"}}, "normalization_options.normalize"),
    ],
)
def test_what_cannot_be_honoured_is_refused(
    client: httpx.Client, fields: dict[str, Any], param: str
) -> None:
    assert refused(client, **fields)["param"] == param


def test_defaults_and_nulls_change_nothing(client: httpx.Client) -> None:
    members: dict[str, Any] = {
        "return_download_link": False,
        "return_timing": None,
        "ssml": False,
        "voice_aliases": {},
        "volume_multiplier": 1.0,
        "lang_code": None,
        "normalization_options": None,
        "allow_voice_tags": None,
    }
    assert same(pcm(client, **members), pcm(client))


def test_members_are_honoured(client: httpx.Client) -> None:
    plain = pcm(client)
    quiet = pcm(client, volume_multiplier=0.25)
    assert np.abs(plain / 4 - quiet).max() <= 1
    assert np.abs(pcm(client, volume_multiplier=10)).max() == 32767, "what is too loud is cut off"
    for code in ("a", "B", "en_AU", "English", "auto"):
        assert same(pcm(client, lang_code=code), pcm(client, language="english")), code
    normalized = pcm(client, "It is 5.", normalization_options={"normalize": True})
    assert same(normalized, pcm(client, "It is 5.", normalize=True))
    assert not same(normalized, pcm(client, "It is 5.", normalization_options={"normalize": False}))


def test_captions_come_with_their_audio(speaker: httpx.Client) -> None:
    body = {"input": "One two. [rate:2] Three four.", "voice": "af_heart", "seed": 1}
    body["response_format"] = "pcm"
    whole = speaker.post("/dev/captioned_speech", json={**body, "stream": False}).json()
    streamed = speaker.post("/dev/captioned_speech", json=body)
    lines = [json.loads(line) for line in streamed.text.splitlines()]
    words = [word for line in lines for word in line["timestamps"]]
    assert words == whole["timestamps"]
    assert [each["word"] for each in words] == ["One", "two.", "Three", "four."]
    times = [time for each in words for time in (each["start_time"], each["end_time"])]
    assert times == sorted(times)
    audio = b"".join(base64.b64decode(line["audio"]) for line in lines)
    assert audio == base64.b64decode(whole["audio"])
    assert audio == pcm(speaker, str(body["input"])).tobytes()
    assert times[-1] <= len(audio) / 48_000
    assert whole["audio_format"] == "audio/pcm"
    off = {"return_timestamps": False, "stream": False}
    assert speaker.post("/dev/captioned_speech", json={**body, **off}).json()["timestamps"] is None


def test_captions_need_a_model_that_knows_words(client: httpx.Client) -> None:
    url = "/dev/captioned_speech"
    assert refused(client, url)["param"] == "return_timestamps"
    assert client.post(url, json={"input": "Hi.", "return_timestamps": False}).status_code == 200


def test_a_dialogue_is_its_turns(client: httpx.Client) -> None:
    turns = [{"voice": "af_alto", "text": "Hello."}, {"voice_id": "bass", "text": "Hello there."}]
    body = {"turns": turns, "pause_between_turns": 0.5, "seed": 1, "response_format": "pcm"}
    heard = np.frombuffer(client.post("/dev/dialogue", json=body).content, "<i2")
    silence = np.zeros(12_000, np.int16)
    parts = [pcm(client, "Hello.", voice="alto"), silence, pcm(client, voice="bass")]
    assert same(heard, np.concatenate(parts))
    wrong = {"turns": [*turns, {"voice": "nobody", "text": "Hello."}]}
    assert client.post("/dev/dialogue", json=wrong).status_code == 404
    assert client.post("/dev/dialogue", json={"turns": []}).status_code == 400


def test_voices_are_not_mixed(client: httpx.Client) -> None:
    answer = client.post("/v1/audio/voices/combine", json="af_bella+af_sky")
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == "not_supported"
