"""When words are spoken, as clients are told: in a header, in events, at any speed."""

import base64
import json
from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.decoding import events
from tests.servers import RunningServer
from tests.sockets import connected, messages

URL = "/v1/audio/speech"
TEXT = "One two three. [pause:2s] Four five."
WORDS = ["One", "two", "three.", "Four", "five."]


def ask(speaker: httpx.Client, **fields: Any) -> httpx.Response:
    body = {"input": TEXT, "word_timestamps": True, "response_format": "pcm", "seed": 1, **fields}
    response = speaker.post(URL, json=body)
    assert response.status_code == 200, response.text
    return response


def told(speaker: httpx.Client, **fields: Any) -> list[dict[str, Any]]:
    words: list[dict[str, Any]] = json.loads(ask(speaker, **fields).headers["x-word-timestamps"])
    assert [each["word"] for each in words] == WORDS
    return words


def test_a_header_tells_all_words(speaker: httpx.Client) -> None:
    response = ask(speaker)
    words = told(speaker)
    assert words == told(speaker, stream=False)
    assert words[3]["start_ms"] - words[2]["end_ms"] >= 2000, "the pause is between"
    assert words[-1]["end_ms"] <= len(response.content) / 2 / 24


def test_words_are_those_of_the_text_with_their_offsets(speaker: httpx.Client) -> None:
    text = "Pay -$5 by May 5, 2024 😀 to Dr. Wu [pause:100ms] at (555) 123-4567, e.g. now."
    words = json.loads(ask(speaker, input=text).headers["x-word-timestamps"])
    assert [each["word"] for each in words][:6] == ["Pay", "-$5", "by", "May", "5,", "2024"]
    assert "(555) 123-4567," in [each["word"] for each in words]
    for each in words:
        assert text[each["offset"] :].startswith(each["word"])
    places = [each["offset"] for each in words]
    assert places == sorted(set(places))


def test_words_that_are_exchanged_written_out_or_tagged_have_offsets(speaker: httpx.Client) -> None:
    text = (
        "[voice:ash] The SQL, the. [rate:1.5] [pause:9ms] Then &amp; 5kg \\[rate:1] SQL the 😀 end"
    )
    fields = {"pronunciations": {"SQL": "see quell"}, "normalize": True}
    words = json.loads(ask(speaker, input=text, **fields).headers["x-word-timestamps"])
    assert [each["word"] for each in words] == [
        *("The", "SQL,", "the.", "Then", "&amp;", "5kg", "[rate:1]", "SQL", "the", "end")
    ]
    last = 0
    for each in words:
        assert text[each["offset"] :].startswith(each["word"])
        assert each["offset"] >= last
        last = each["offset"] + len(each["word"])


def test_words_of_a_long_text_have_the_offsets_of_all_its_segments(speaker: httpx.Client) -> None:
    text = "\n\n".join(f"The {number} others, the other. " * 3 for number in range(3))
    deltas = events(ask(speaker, input=text, stream_format="sse").text)
    words = [word for delta in deltas for word in delta.get("timestamps", ())]
    places = [(each["offset"], each["offset"] + len(each["word"])) for each in words]
    assert [text[slice(*place)] for place in places] == text.split()
    assert all(before[1] < after[0] for before, after in pairwise(places))


def test_events_tell_the_same_words_with_their_audio(speaker: httpx.Client) -> None:
    found = events(ask(speaker, stream_format="sse").text)
    deltas = [each for each in found if each["type"] == "speech.audio.delta"]
    assert [word for delta in deltas for word in delta["timestamps"]] == told(speaker)
    num_bytes = 0
    for delta in deltas:
        for word in delta["timestamps"]:
            assert word["start_ms"] >= num_bytes / 2 / 24 - 100, "a word comes before its audio"
        num_bytes += len(base64.b64decode(delta["audio"]))


@pytest.mark.parametrize("speed", [0.5, 2.0])
def test_times_follow_the_speed_and_pauses_do_not(speaker: httpx.Client, speed: float) -> None:
    plain, changed = told(speaker), told(speaker, speed=speed, sample_rate=16_000)
    for one, other in zip(plain[:3], changed[:3], strict=True):
        assert other["start_ms"] == pytest.approx(one["start_ms"] / speed, abs=2)
    gap_ms = plain[3]["start_ms"] - plain[2]["end_ms"] - 2000
    changed_gap_ms = changed[3]["start_ms"] - changed[2]["end_ms"] - 2000
    assert changed_gap_ms == pytest.approx(gap_ms / speed, abs=3)


def test_too_many_words_for_a_header_are_counted(speaker: httpx.Client) -> None:
    headers = ask(speaker, input="word " * 200).headers
    assert headers["x-word-timestamps-omitted"] == "200"
    assert "x-word-timestamps" not in headers


def test_a_batch_tells_words_too(speaker: httpx.Client) -> None:
    body = {"items": [{"input": TEXT, "seed": 1}], "word_timestamps": True}
    (result,) = speaker.post(f"{URL}/batch", json=body).json()["results"]
    assert result["timestamps"] == told(speaker)


@pytest.mark.parametrize(
    "fields", [{"stream_format": "audio"}, {"stream_format": "audio", "stream": True}]
)
def test_streamed_bytes_have_no_room_for_words(
    speaker: httpx.Client, fields: dict[str, Any]
) -> None:
    body = {"input": "x", "word_timestamps": True, "stream_format": "audio", **fields}
    response = speaker.post(URL, json=body)
    assert response.status_code == 400
    assert response.json()["error"]["param"] == "word_timestamps"


def test_a_model_that_cannot_tell_says_so(server: RunningServer) -> None:
    body = {"input": "x", "word_timestamps": True}
    for path, sent in ((URL, body), (f"{URL}/jobs", body)):
        response = httpx.post(server.base_url + path, json=sent)
        assert response.status_code == 400
        assert response.json()["error"]["param"] == "word_timestamps"


@pytest.mark.parametrize("stream_audio", [True, False])
def test_a_socket_tells_the_same_words(
    hibari: RunningServer, speaker: httpx.Client, stream_audio: bool
) -> None:
    config = {"word_timestamps": True, "response_format": "pcm", "seed": 1}
    with connected(hibari, "/v1/audio/speech/stream") as talk:
        talk.send("session.config", **config, stream_audio=stream_audio)
        for letter in TEXT:
            talk.send("input.text", text=letter)
        talk.send("input.done")
        found = messages(talk.until("session.done"))
    chunks = [each for each in found if each["type"] == "audio.chunk"]
    assert [word for chunk in chunks for word in chunk["timestamps"]] == told(speaker)
    audio = b"".join(base64.b64decode(chunk["audio_b64"]) for chunk in chunks)
    assert audio == ask(speaker).content
