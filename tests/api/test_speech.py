"""The speech route: every format, three ways to deliver it, one audio."""

import io
import wave
from typing import Any

import httpx
import numpy as np
import pytest

from tests.decoding import audio_of, decoded, events, same_audio, told_length
from tests.servers import RunningServer

URL = "/v1/audio/speech"
FORMATS = ("mp3", "opus", "aac", "flac", "wav", "pcm")
MEDIA_TYPES = dict(
    mp3="audio/mpeg",
    opus="audio/ogg",
    aac="audio/aac",
    flac="audio/flac",
    wav="audio/wav",
    pcm="audio/pcm",
)
TEXT = "Tones."
DURATION_S = len(TEXT) * 2 * 0.04  # the toy's frames: two a letter, 40 ms each
WAV_HEADER_BYTES = 44


def post(client: httpx.Client, **body: Any) -> httpx.Response:
    response = client.post(URL, json={"input": TEXT, "seed": 1, **body})
    assert response.status_code == 200, response.text
    return response


@pytest.mark.parametrize(
    ("speed", "sample_rate"), [(1.0, None), (1.7, None), (0.5, 16_000), (4.0, 48_000)]
)
@pytest.mark.parametrize("format", FORMATS)
def test_a_file_is_the_same_however_it_is_delivered(
    client: httpx.Client, format: str, speed: float, sample_rate: int | None
) -> None:
    wanted = {"response_format": format, "speed": speed, "sample_rate": sample_rate}
    raw = post(client, **wanted)
    sse = post(client, **wanted, stream_format="sse")
    whole = post(client, **wanted, stream=False)

    assert same_audio(whole.content, raw.content, format)
    assert audio_of(events(sse.text)) == raw.content
    samples, rate_hz = decoded(raw.content, format, sample_rate or 24_000)
    # Codecs pad the ends: MP3 most, by two frames of up to 576 samples at each.
    assert len(samples) / rate_hz == pytest.approx(DURATION_S / speed, abs=0.15)
    assert np.abs(samples).max() > 0.05, "silent"


@pytest.mark.parametrize("format", ["mp3", "opus", "flac", "wav"])
def test_a_whole_file_tells_how_long_it_is(client: httpx.Client, format: str) -> None:
    whole = post(client, response_format=format, stream=False)
    assert told_length(whole.content, 24_000) == round(DURATION_S * 24_000)


@pytest.mark.parametrize("format", FORMATS)
def test_headers_tell_what_the_body_is(client: httpx.Client, format: str) -> None:
    raw = post(client, response_format=format)
    sse = post(client, response_format=format, stream=True)
    whole = post(client, response_format=format, stream=False)

    for response in (raw, whole):
        assert response.headers["content-type"] == MEDIA_TYPES[format]
    assert sse.headers["content-type"].startswith("text/event-stream")
    for streamed in (raw, sse):
        assert streamed.headers["transfer-encoding"] == "chunked"
        assert "content-length" not in streamed.headers
    assert int(whole.headers["content-length"]) == len(whole.content)
    for response in (raw, sse, whole):
        assert response.headers["x-sample-rate"] == "24000"
        assert response.headers["x-accel-buffering"] == "no"
        assert response.headers["cache-control"] == "no-cache"
        assert response.headers["x-request-id"]


def test_sample_rate_header_tells_the_rate_that_was_asked_for(client: httpx.Client) -> None:
    response = post(client, response_format="pcm", sample_rate=8000)
    assert response.headers["x-sample-rate"] == "8000"
    assert len(response.content) / 2 / 8000 == pytest.approx(DURATION_S, abs=0.001)


def test_wav_tells_its_length_only_when_it_is_known(client: httpx.Client) -> None:
    streamed = post(client, response_format="wav").content
    whole = post(client, response_format="wav", stream=False).content

    assert streamed[40:44] == b"\xff\xff\xff\xff"
    num_samples = (len(whole) - WAV_HEADER_BYTES) // 2
    with wave.open(io.BytesIO(whole)) as file:
        assert file.getnframes() == num_samples
        assert file.getframerate() == 24_000
    with wave.open(io.BytesIO(streamed)) as file:  # players do read the other one
        assert len(file.readframes(10**9)) == num_samples * 2


def test_events_carry_the_format_and_end_with_usage(client: httpx.Client) -> None:
    found = events(post(client, response_format="pcm", stream=True).text)
    *deltas, done = found
    assert len(deltas) > 1
    assert {(each["type"], each["response_format"]) for each in deltas} == {
        ("speech.audio.delta", "pcm")
    }
    num_frames = len(TEXT) * 2
    assert done == {
        "type": "speech.audio.done",
        "finish_reason": "stop",
        "usage": {
            "input_tokens": len(TEXT),
            "output_tokens": num_frames,
            "total_tokens": len(TEXT) + num_frames,
        },
    }


def test_a_cut_at_the_limit_is_told(client: httpx.Client) -> None:
    whole = post(client, response_format="pcm", stream=False, max_new_tokens=3)
    done = events(post(client, response_format="pcm", stream=True, max_new_tokens=3).text)[-1]
    assert len(whole.content) == 2 * 960 * 2, "the token that ends speech counts"
    assert whole.headers["x-finish-reason"] == "length"
    assert done["finish_reason"] == "length"
    assert post(client, stream=False).headers["x-finish-reason"] == "stop"


def test_defaults_are_streamed_mp3(client: httpx.Client) -> None:
    response = client.post(URL, json={"input": TEXT})
    assert response.headers["content-type"] == "audio/mpeg"
    assert response.headers["transfer-encoding"] == "chunked"


def test_null_means_the_default_and_unknown_members_are_ignored(client: httpx.Client) -> None:
    names = (
        "model voice speaker instructions response_format speed stream stream_format sample_rate"
        " language temperature top_k top_p repetition_penalty max_new_tokens"
    )
    nulls = dict.fromkeys(names.split())
    with_nulls = post(client, **nulls, some_vendors_own={"x": 1})
    assert with_nulls.content == post(client).content
    assert client.post(URL, json={"input": TEXT, "seed": None}).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"voice": "alloy"},
        {"voice": "Marin"},
        {"voice": {"id": "sine"}},
        {"voice": "SINE"},
        {"voice": "default"},
        {"speaker": "sine"},
        {"model": "tts-1"},
        {"model": "gpt-4o-mini-tts"},
        {"model": "toy"},
        {"language": "Auto"},
        {"language": "en_US"},
        {"language": "English"},
        {"instructions": "calm"},
        {"stream_format": "audio", "stream": True},
        {"seed": 1 - 2**63},  # folded into what every family understands
    ],
)
def test_many_names_mean_the_default(client: httpx.Client, body: dict[str, Any]) -> None:
    assert (
        post(client, **body, response_format="pcm").content
        == post(client, response_format="pcm").content
    )


def test_fields_reach_the_model(client: httpx.Client) -> None:
    plain = post(client, response_format="pcm").content
    for change in ({"voice": "bass"}, {"speaker": "bass"}, {"seed": 2}, {"temperature": 0}):
        assert post(client, response_format="pcm", **change).content != plain, change
    negative = post(client, response_format="pcm", seed=-5).content
    assert negative == post(client, response_format="pcm", seed=-5).content


def test_documentation_names_every_content_type_and_status(server: RunningServer) -> None:
    schema = httpx.get(f"{server.base_url}/openapi.json").json()
    responses = schema["paths"][URL]["post"]["responses"]
    assert {*MEDIA_TYPES.values(), "text/event-stream"} == set(responses["200"]["content"])
    assert {"400", "401", "404", "413", "429", "500", "503"} <= set(responses)
    assert "422" not in responses
    assert httpx.get(f"{server.base_url}/docs").status_code == 200
