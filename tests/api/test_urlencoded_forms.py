"""Urlencoded forms are taken wherever a form needs no file."""

from urllib.parse import parse_qsl, quote_plus

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.api.bodies import SLICE_BYTES, urlencoded
from antiphon.api.middleware.json_limits import MAX_ESCAPES
from tests.decoding import error_of
from tests.videos import decoded_video

SPEECH, VIDEOS = "/v1/audio/speech", "/v1/videos"
TYPE = {"Content-Type": "application/x-www-form-urlencoded"}


def test_speech(client: httpx.Client) -> None:
    body = {"input": "Hé, 50 % & more.", "response_format": "pcm", "seed": 7, "speed": 1.5}
    spoken = client.post(SPEECH, json=body)
    assert client.post(SPEECH, data={**body, "voice": ""}).content == spoken.content
    twice = "&".join(f"{name}={quote_plus(str(value))}" for name, value in body.items())
    answer = client.post(SPEECH, content=f"input=x&{twice}", headers=TYPE)
    assert answer.content == spoken.content, "the last value of a field counts"
    upper = {"Content-Type": "Application/X-WWW-Form-UrlEncoded; charset=utf-8"}
    assert client.post(SPEECH, content=twice, headers=upper).content == spoken.content


def test_videos(client: httpx.Client) -> None:
    body = {"prompt": "a cat", "size": "32x24", "seed": "3", "num_frames": "5"}
    video = client.post(f"{VIDEOS}/sync", data=body)
    assert video.status_code == 200, video.text
    assert len(decoded_video(video.content)[0]) == 5
    assert video.content == client.post(f"{VIDEOS}/sync", json=body).content
    job = client.post(VIDEOS, data=body)
    assert (job.status_code, job.json()["object"]) == (200, "video")
    client.delete(f"{VIDEOS}/{job.json()['id']}")


@pytest.mark.parametrize(
    ("content", "param"),
    [
        (b"input=%ff", None),
        (b"input=\xff", None),
        (b"&".join(b"a=1" for _ in range(2000)), None),
        (b"", "input"),
        (b"input=Hello&speed=fast", "speed"),
        (b"input=Hello&stream=perhaps", "stream"),
        (b"input=Hello&references=x", "references"),
    ],
)
def test_forms_that_cannot_be_read(client: httpx.Client, content: bytes, param: str | None) -> None:
    assert error_of(client.post(SPEECH, content=content, headers=TYPE), 400)["param"] == param


def test_voices_need_a_file(client: httpx.Client) -> None:
    error = error_of(client.post("/v1/audio/voices", data={"name": "x"}), 400)
    assert error["param"] == "audio_sample"
    error = error_of(client.post("/v1/audio/voices", data={"name": "x", "nmae": "y"}), 400)
    assert (error["param"], error["code"]) == ("nmae", "unknown_field")


@settings(deadline=None)
@given(st.lists(st.sampled_from(["%", "%4", "%41", "%e4%bd%a0", "+", "=", "&", "é", "z"])))
def test_values_are_read_as_the_standard_library_reads_them(pieces: list[str]) -> None:
    for padding in range(4):
        body = ("a=" + "z" * (SLICE_BYTES - padding) + "".join(pieces)).encode()
        assert urlencoded(body) == parse_qsl(body.decode(), keep_blank_values=True)


def test_forms_of_too_many_escapes_are_refused(client: httpx.Client) -> None:
    body = b"input=" + b"%" * (MAX_ESCAPES + 1)
    error = error_of(client.post(SPEECH, content=body, headers=TYPE), 400)
    assert str(MAX_ESCAPES) in error["message"]
