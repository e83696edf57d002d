"""Every failure has OpenAI's shape, names the field, and says nothing about the inside."""

import asyncio
import json
from typing import Any

import httpx
import pytest
from starlette.types import Message, Receive, Scope, Send

from antiphon.api.errors import ErrorMiddleware, wire_error
from antiphon.config import ModelSettings, Settings, SpeechSettings
from antiphon.errors import AuthenticationError, OverloadedError, RateLimitError
from antiphon.telemetry.metrics import Metrics
from tests.decoding import error_of
from tests.servers import start_server

URL = "/v1/audio/speech"


@pytest.mark.parametrize(
    ("change", "param", "code", "words"),
    [
        ({"input": None}, "input", "missing_required_parameter", "Missing"),
        ({"input": " \n"}, "input", "invalid_value", "Input text cannot be empty"),
        ({"input": 3}, "input", "invalid_value", "a string"),
        ({"input": "\ud800"}, "input", "invalid_value", "Unicode"),
        ({"response_format": "ogg"}, "response_format", "invalid_value", "'ogg'"),
        ({"response_format": "ogg"}, "response_format", "invalid_value", "mp3, opus, aac, flac"),
        ({"stream_format": "x"}, "stream_format", "invalid_value", "audio, sse"),
        ({"speed": 9}, "speed", "invalid_value", "at most 4"),
        ({"speed": 0.1}, "speed", "invalid_value", "at least 0.25"),
        ({"speed": "fast"}, "speed", "invalid_value", "a number"),
        ({"speed": float("nan")}, "speed", "invalid_value", "finite"),
        ({"sample_rate": 7999}, "sample_rate", "invalid_value", "at least 8000"),
        ({"sample_rate": 24000.5}, "sample_rate", "invalid_value", "an integer"),
        ({"stream": "maybe"}, "stream", "invalid_value", "true or false"),
        ({"seed": 2**63}, "seed", "invalid_value", "at most"),
        ({"seed": "x" * 1000}, "seed", "invalid_value", "an integer"),
        ({"top_p": 0}, "top_p", "invalid_value", "above 0"),
        ({"max_new_tokens": 0}, "max_new_tokens", "invalid_value", "from 1 to"),
        ({"voice": {"name": "x"}}, "voice", "invalid_value", "'id'"),
        ({"voice": ["x"]}, "voice", "invalid_value", "a string"),
        ({"language": "Klingon"}, "language", "invalid_value", "english, german"),
        ({"stream": False, "stream_format": "sse"}, "stream", "invalid_value", "stream_format"),
    ],
)
def test_wrong_fields_are_named_with_what_is_allowed(
    client: httpx.Client, change: dict[str, Any], param: str, code: str, words: str
) -> None:
    content = json.dumps({"input": "Hello.", **change})
    response = client.post(URL, content=content, headers={"Content-Type": "application/json"})
    error = error_of(response, 400)
    assert error["type"] == "invalid_request_error"
    assert (error["param"], error["code"]) == (param, code)
    assert words in error["message"]
    assert len(error["message"]) < 300


@pytest.mark.parametrize(
    ("change", "param", "code", "words"),
    [
        ({"voice": "zzz"}, "voice", "voice_not_found", "sine"),
        ({"model": "zzz"}, "model", "model_not_found", "toy"),
    ],
)
def test_unknown_names_are_404_and_list_the_known_ones(
    client: httpx.Client, change: dict[str, Any], param: str, code: str, words: str
) -> None:
    error = error_of(client.post(URL, json={"input": "Hello.", **change}), 404)
    assert (error["param"], error["code"]) == (param, code)
    assert words in error["message"]


def test_several_wrong_fields_are_all_named(client: httpx.Client) -> None:
    error = error_of(client.post(URL, json={"speed": 9, "top_k": -1}), 400)
    for field in ("input", "speed", "top_k"):
        assert f"'{field}'" in error["message"]


@pytest.mark.parametrize(
    ("content", "content_type", "words"),
    [
        (b"", "application/json", "JSON object"),
        (b"[]", "application/json", "JSON object"),
        (b'"text"', "application/json", "JSON object"),
        (b"null", "application/json", "JSON object"),
        (b"{", "application/json", "not valid JSON"),
        (b'{"input": "\xff"}', "application/json", "body"),
        (b"[" * 100_000, "application/json", "body"),
        (b'{"input": "Hello."}', "text/plain", "Content-Type: application/json"),
    ],
)
def test_bodies_that_are_no_json_object(
    client: httpx.Client, content: bytes, content_type: str, words: str
) -> None:
    response = client.post(URL, content=content, headers={"Content-Type": content_type})
    error = error_of(response, 400)
    assert words in error["message"]
    assert error["param"] is None


@pytest.mark.parametrize("path", ["/v1/readyz", "/v1/nothing", "/nothing", "/v1/models/zzz"])
def test_unknown_urls_are_404(client: httpx.Client, path: str) -> None:
    assert error_of(client.get(path), 404)["code"] in ("not_found", "model_not_found")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/models"), ("POST", "/audio/speech"), ("GET", "/audio/voices")]
)
def test_an_address_without_its_version_is_told(
    client: httpx.Client, method: str, path: str
) -> None:
    error = error_of(client.request(method, path), 404)
    assert error["message"] == f"Not Found: {method} {path}. Did you mean /v1{path}?"
    assert "Did you mean" not in error_of(client.get("/nothing"), 404)["message"]


def test_wrong_methods_are_405_and_told_which_are_right(client: httpx.Client) -> None:
    response = client.delete(URL)
    assert error_of(response, 405)["code"] == "method_not_allowed"
    assert response.headers["allow"] == "GET, HEAD, OPTIONS, POST"


def test_text_beyond_the_limit() -> None:
    settings = Settings(
        model=ModelSettings(source="toy"), speech=SpeechSettings(max_input_characters=10)
    )
    with start_server(settings) as server:
        url = f"{server.base_url}{URL}"
        assert httpx.post(url, json={"input": "x" * 10}).status_code == 200
        error = error_of(httpx.post(url, json={"input": "x" * 11}), 400)
    assert (error["param"], error["code"]) == ("input", "string_above_max_length")


@pytest.mark.parametrize("mode", [{}, {"stream": True}, {"stream": False}])
def test_failures_before_the_first_byte_are_real_errors(
    faulty_client: httpx.Client, mode: dict[str, bool]
) -> None:
    response = faulty_client.post(URL, json={"input": "0 chunks, then engine error", **mode})
    error = error_of(response, 500)
    assert (error["type"], error["code"]) == ("server_error", "engine_error")
    assert "x-should-retry" not in response.headers  # the next attempt may succeed


def test_a_whole_file_is_never_half_sent(faulty_client: httpx.Client) -> None:
    body = {"input": "3 chunks, then engine error", "stream": False}
    assert error_of(faulty_client.post(URL, json=body), 500)["code"] == "engine_error"


def test_bugs_say_nothing_and_are_logged_with_the_request_id(
    faulty_client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    body = {"input": "0 chunks, then bug"}
    page = "http://localhost:3000"
    response = faulty_client.post(URL, json=body, headers={"Origin": page})
    error = error_of(response, 500)
    assert "secret" not in response.text
    assert error["message"] == "Internal server error."
    assert response.headers["x-should-retry"] == "false"
    assert response.headers["access-control-allow-origin"] == page  # so that it can read it
    logged = [each for each in caplog.records if each.exc_info and each.name.startswith("antiphon")]
    assert [str(each.exc_info[1]) for each in logged if each.exc_info] == ["a secret of the inside"]


def test_busy_servers_say_when_to_come_back() -> None:
    error = wire_error(RateLimitError("Too many streams.", retry_after_s=0.25))
    assert (error.status, error.type, error.code) == (
        429,
        "rate_limit_error",
        "rate_limit_exceeded",
    )
    assert error.headers == {"Retry-After": "1", "retry-after-ms": "250"}


def test_refused_websockets_get_the_same_shape() -> None:
    async def refusing(scope: Scope, receive: Receive, send: Send) -> None:
        raise AuthenticationError("The API key is wrong.")

    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    asyncio.run(ErrorMiddleware(refusing, Metrics())({"type": "websocket"}, receive, send))
    start, body = sent
    assert (start["type"], start["status"]) == ("websocket.http.response.start", 401)
    assert json.loads(body["body"])["error"]["code"] == "invalid_api_key"


def test_whoever_is_one_too_many_is_told_when_to_come_again() -> None:
    described = wire_error(OverloadedError("Too many listeners.", retry_after_s=1.25))
    assert (described.status, described.type, described.code) == (
        *(429, "rate_limit_error"),
        "overloaded",
    )
    assert described.headers["Retry-After"] == "2"
    assert described.headers["retry-after-ms"] == "1250"
