"""Audio with the times of its characters, over HTTP and WebSocket, where a model knows words."""

import base64
import io
import json
import wave
from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.servers import RunningServer
from tests.sockets import connected, messages

TEXT = "One two three. It costs $5, my friend. [pause:1s] Twice!"
PATH = "/v1/text-to-speech/heart"
PCM_BYTES_A_S = 48_000


def spoken(client: httpx.Client, **fields: Any) -> dict[str, Any]:
    body = {"text": TEXT, "seed": 1, **fields}
    answer = client.post(f"{PATH}/with-timestamps?output_format=pcm_24000", json=body)
    assert answer.status_code == 200, answer.text
    told: dict[str, Any] = answer.json()
    return told


def streamed(client: httpx.Client, path: str, **fields: Any) -> list[dict[str, Any]]:
    answer = client.post(f"{path}?output_format=pcm_24000", json={"seed": 1, **fields})
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


def duration_s(told: dict[str, Any]) -> float:
    return len(base64.b64decode(told["audio_base64"])) / PCM_BYTES_A_S


def joined(told: list[dict[str, Any]], name: str) -> dict[str, list[Any]]:
    keys = ("characters", "character_start_times_seconds", "character_end_times_seconds")
    found = [each["alignment"] for each in told if each["alignment"]]
    return {key: [value for each in found for value in each[key]] for key in keys}


def test_all_characters_are_timed_within_the_audio(speaker: httpx.Client) -> None:
    told = spoken(speaker)
    alignment = told["alignment"]
    assert "".join(alignment["characters"]) == TEXT
    starts = alignment["character_start_times_seconds"]
    ends = alignment["character_end_times_seconds"]
    assert starts == sorted(starts)
    assert ends == sorted(ends)
    assert ends[-1] <= duration_s(told)
    pause = TEXT.index("[")
    assert starts[TEXT.index("Twice")] - ends[pause - 2] >= 1.0, "the pause is heard there"
    read = "".join(told["normalized_alignment"]["characters"])
    assert read.startswith("One two three.")
    assert "pause" not in read


def test_a_stream_tells_the_same(speaker: httpx.Client) -> None:
    whole = spoken(speaker)
    lines = streamed(speaker, f"{PATH}/stream/with-timestamps", text=TEXT)
    assert len(lines) > 2
    assert joined(lines, "alignment") == whole["alignment"]
    assert sum(map(duration_s, lines)) == duration_s(whole)


def test_times_follow_the_speed(speaker: httpx.Client) -> None:
    plain = spoken(speaker, text="One two three.")["alignment"]["character_end_times_seconds"]
    fast = spoken(speaker, text="One two three.", voice_settings={"speed": 2.0})
    ends = fast["alignment"]["character_end_times_seconds"]
    assert ends == pytest.approx([each / 2 for each in plain], abs=0.002)


def test_a_whole_wav_file_is_complete(speaker: httpx.Client) -> None:
    answer = speaker.post(f"{PATH}/with-timestamps?output_format=wav_16000", json={"text": TEXT})
    with wave.open(io.BytesIO(base64.b64decode(answer.json()["audio_base64"]))) as file:
        assert file.getnframes() / file.getframerate() > 3


@pytest.mark.parametrize("suffix", ["with-timestamps", "stream/with-timestamps"])
def test_a_model_that_knows_no_words_tells_none(client: httpx.Client, suffix: str) -> None:
    answer = client.post(f"/v1/text-to-speech/alto/{suffix}", json={"text": "Hello."})
    assert answer.status_code == 200
    for line in answer.text.splitlines():
        assert json.loads(line)["alignment"] is None
        assert json.loads(line)["normalized_alignment"] is None
        assert base64.b64decode(json.loads(line)["audio_base64"])


@pytest.mark.parametrize("streams", [False, True])
def test_a_dialogue_tells_who_speaks_when(speaker: httpx.Client, streams: bool) -> None:
    inputs = [
        {"text": "One two.", "voice_id": "heart"},
        {"text": "Three.", "voice_id": "bIHbv24MWmeRgasZH58o"},
    ]
    suffix = "/stream/with-timestamps" if streams else "/with-timestamps"
    lines = streamed(speaker, f"/v1/text-to-dialogue{suffix}", inputs=inputs)
    segments = [segment for line in lines for segment in line["voice_segments"]]
    assert [each["dialogue_input_index"] for each in segments] == [0, 1]
    assert [each["voice_id"] for each in segments] == ["heart", inputs[1]["voice_id"]]
    alignment = joined(lines, "alignment")
    text = "".join(alignment["characters"])
    assert text == "One two. Three."
    for segment, said in zip(segments, inputs, strict=True):
        start, end = segment["character_start_index"], segment["character_end_index"]
        assert text[start:end] == said["text"]
        assert segment["start_time_seconds"] <= alignment["character_start_times_seconds"][start]
        last_s = alignment["character_end_times_seconds"][end - 1]
        assert last_s <= segment["end_time_seconds"] + 0.001
    assert segments[1]["start_time_seconds"] - segments[0]["end_time_seconds"] >= 0.25
    assert segments[1]["end_time_seconds"] == pytest.approx(sum(map(duration_s, lines)), abs=0.01)


@pytest.mark.parametrize("speed", [1.0, 2.0])
def test_a_websocket_tells_times_from_message_to_message(
    hibari: RunningServer, speaker: httpx.Client, speed: float
) -> None:
    text = "One two three. Four five six, seven. Eight."
    settings = {"speed": speed}
    url = f"{PATH}/multi-stream-input?output_format=pcm_24000&seed=1"
    with connected(hibari, url) as talk:
        for letter in text:
            talk.send(text=letter, context_id="a", voice_settings=settings)
        talk.send(close_socket=True)
        found = messages(talk.rest())
    audio_s = sum(len(base64.b64decode(each["audio"] or "")) for each in found) / PCM_BYTES_A_S
    for name in ("alignment", "normalizedAlignment"):
        told = [each[name] for each in found if each.get(name)]
        assert "".join("".join(each["chars"]) for each in told) == text
        origin_ms, starts_ms = 0, []
        for each in told:
            starts_ms += [origin_ms + start for start in each["charStartTimesMs"]]
            origin_ms += each["charStartTimesMs"][-1] + each["charDurationsMs"][-1]
        assert all(one <= other for one, other in pairwise(starts_ms))
        assert starts_ms[-1] <= origin_ms <= audio_s * 1000 + 1
        assert origin_ms > audio_s * 1000 - 400, "the last word ends near the end"
