"""What a voice leaves out is told wherever its audio goes; what it cannot say at all is refused."""

import base64
import json
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from antiphon.api.app import EXPOSED_HEADERS
from antiphon.api.encoding import (
    MAX_UNSPOKEN_BYTES,
    UNSPOKEN_HEADER,
    UNSPOKEN_OMITTED_HEADER,
    unspoken_headers,
)
from tests.decoding import events

URL = "/v1/audio/speech"
TEXT = "Hello 你好 there, 🎉 and 你好 again."
WORDS = ["你好", "🎉"]


def ask(speaker: httpx.Client, text: str = TEXT, **fields: Any) -> httpx.Response:
    return speaker.post(URL, json={"input": text, "response_format": "pcm", "seed": 1, **fields})


@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream_format": "sse"}], ids=str)
def test_a_header_tells_it_with_the_first_audio(
    speaker: httpx.Client, fields: dict[str, Any]
) -> None:
    response = ask(speaker, **fields)
    assert response.status_code == 200
    assert [unquote(word) for word in response.headers[UNSPOKEN_HEADER].split(",")] == WORDS
    assert UNSPOKEN_HEADER not in ask(speaker, "Hello there, $5 & 3rd.", **fields).headers


def test_the_last_event_tells_it(speaker: httpx.Client) -> None:
    assert events(ask(speaker, stream_format="sse").text)[-1]["unspoken"] == WORDS
    assert "unspoken" not in events(ask(speaker, "Hello.", stream_format="sse").text)[-1]


@pytest.mark.parametrize("fields", [{}, {"stream": False}, {"stream_format": "sse"}], ids=str)
@pytest.mark.parametrize("text", ["你好。世界！", "🎉", "שלום [pause:1s] 你好"])
def test_a_text_that_cannot_be_said_at_all_is_refused(
    speaker: httpx.Client, text: str, fields: dict[str, Any]
) -> None:
    response = ask(speaker, text, **fields)
    assert response.status_code == 400
    error = response.json()["error"]
    assert (error["code"], error["param"]) == ("unspeakable_text", "input")
    assert text[:1] in error["message"]


def test_punctuation_alone_is_silence(speaker: httpx.Client) -> None:
    assert ask(speaker, "...").status_code == 200


def test_a_batch_tells_it_item_by_item(speaker: httpx.Client) -> None:
    items = [{"input": TEXT}, {"input": "Hello."}, {"input": "你好"}]
    results = speaker.post(f"{URL}/batch", json={"items": items}).json()["results"]
    assert [each["unspoken"] for each in results] == [WORDS, None, None]
    assert results[2]["error_details"]["error"]["code"] == "unspeakable_text"
    assert base64.b64decode(results[0]["audio_data"])


def test_a_job_tells_it(speaker: httpx.Client) -> None:
    job = speaker.post(f"{URL}/jobs", json={"input": TEXT}).json()
    with speaker.stream("GET", f"{URL}/jobs/{job['id']}/events") as response:
        lines = [line for line in response.iter_lines() if line.startswith("data: ")]
    job = json.loads(lines[-1].removeprefix("data: "))["job"]
    assert (job["status"], job["unspoken"], job["error"]) == ("completed", WORDS, None), lines


def test_a_job_without_a_word_that_can_be_said_is_refused(speaker: httpx.Client) -> None:
    nothing = [
        {"input": "你好。世界！"},
        {"input": "🎉 [voice:ash] [pause:1s] 你好"},
        {"input": "[pause:1s]"},
    ]
    for body in ({"input": "🎉"}, {"input": "[pause:1s]"}, {"chapters": nothing}):
        response = speaker.post(f"{URL}/jobs", json=body)
        assert response.status_code == 400, response.text
        error = response.json()["error"]
        assert (error["code"], error["param"]) == ("unspeakable_text", next(iter(body)))
    body = {"chapters": [*nothing, {"input": "🎉 " * 10_001 + "Hello."}]}
    assert speaker.post(f"{URL}/jobs", json=body).status_code == 202


def test_the_header_is_bounded_and_pages_may_read_it() -> None:
    words = tuple(f"你好{number}" for number in range(500))
    headers = unspoken_headers(words)
    told = headers[UNSPOKEN_HEADER].split(",")
    assert len(headers[UNSPOKEN_HEADER]) <= MAX_UNSPOKEN_BYTES
    assert len(told) + int(headers[UNSPOKEN_OMITTED_HEADER]) == len(words)
    assert {UNSPOKEN_HEADER, UNSPOKEN_OMITTED_HEADER} <= set(EXPOSED_HEADERS)
    assert unspoken_headers(()) == {}
