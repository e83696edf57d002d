"""Keys, sizes, request ids and pages from elsewhere."""

import logging
from collections.abc import Generator

import httpx
import pytest

from antiphon.config import ModelSettings, ServerSettings, Settings
from antiphon.telemetry import logs
from tests import raw
from tests.decoding import error_of
from tests.servers import RunningServer, server_of

URL = "/v1/audio/speech"
KEYS = ("sk-first", "sk-zweiter-schlüssel")
MAX_BODY_BYTES = 4096


guarded = server_of(
    Settings(
        model=ModelSettings(source="toy"),
        server=ServerSettings(
            api_keys=KEYS, max_body_bytes=MAX_BODY_BYTES, cors_origins=("https://page.example",)
        ),
    )
)
"""A server with keys and a small limit."""


@pytest.fixture
def stranger(guarded: RunningServer) -> Generator[httpx.Client, None, None]:
    with httpx.Client(base_url=guarded.base_url) as client:
        yield client


@pytest.fixture
def friend(guarded: RunningServer) -> Generator[httpx.Client, None, None]:
    headers = {"Authorization": f"Bearer {KEYS[0]}"}
    with httpx.Client(base_url=guarded.base_url, headers=headers) as client:
        yield client


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        "Bearer sk-firs",
        "Bearer sk-first1",
        "Basic sk-first",
        "sk-first",
        "Bearer sk-first sk-first",
        "Bearer \xff",
    ],
)
def test_without_a_right_key_nothing_is_done(
    stranger: httpx.Client, authorization: str | None
) -> None:
    headers = httpx.Headers()
    if authorization is not None:
        headers = httpx.Headers({"Authorization": authorization}, encoding="latin-1")
    for method, path in (("POST", URL), ("GET", "/metrics"), ("GET", "/v1/nothing")):
        response = stranger.request(method, path, headers=headers, json={"input": "Hello."})
        error = error_of(response, 401)
        assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
        assert response.headers["www-authenticate"] == "Bearer"


def test_each_key_opens(stranger: httpx.Client) -> None:
    for scheme in ("Bearer", "bearer"):
        for key in KEYS:
            headers = httpx.Headers({"Authorization": f"{scheme} {key}"}, encoding="utf-8")
            response = stranger.post(URL, json={"input": "Hello."}, headers=headers)
            assert response.status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/static/app.js",
        "/health",
        "/v1/test",
        "/v1/",
        "/v1/models",
        "/v1/models/toy",
        "/v1/audio/models",
        "/v1/audio/voices",
        "/v1/audio/voices?legacy=true",
        "/openapi.json",
    ],
)
def test_pages_health_and_lists_are_open(stranger: httpx.Client, path: str) -> None:
    assert stranger.get(path).status_code == 200


def test_lists_are_open_for_reading_only(stranger: httpx.Client) -> None:
    assert stranger.post("/v1/audio/voices").status_code == 401
    assert stranger.delete("/v1/models/toy").status_code == 401


def test_preflights_need_no_key_and_errors_can_be_read_by_pages(stranger: httpx.Client) -> None:
    origin = {"Origin": "https://page.example"}
    asked = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os",
    }
    preflight = stranger.options(URL, headers={**origin, **asked})
    assert preflight.status_code == 200
    assert preflight.headers["access-control-allow-origin"] == "https://page.example"
    assert "x-stainless-os" in preflight.headers["access-control-allow-headers"]
    refused = stranger.post(URL, headers=origin)
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://page.example"
    exposed = refused.headers["access-control-expose-headers"].lower()
    assert "x-request-id" in exposed
    assert "x-sample-rate" in exposed
    elsewhere = stranger.get("/health", headers={"Origin": "https://other.example"})
    assert "access-control-allow-origin" not in elsewhere.headers


def test_a_body_that_says_that_it_is_too_large(friend: httpx.Client) -> None:
    body = {"input": "x" * MAX_BODY_BYTES}
    assert error_of(friend.post(URL, json=body), 413)["code"] == "request_too_large"
    assert friend.post(URL, json={"input": "x"}).status_code == 200


def test_a_body_that_turns_out_to_be_too_large(friend: httpx.Client) -> None:
    def pieces(num_bytes: int) -> Generator[bytes, None, None]:
        text = b'{"input": "Hello.", "padding": "' + b"x" * num_bytes + b'"}'
        yield from (text[start : start + 100] for start in range(0, len(text), 100))

    headers = {"Content-Type": "application/json"}
    response = friend.post(URL, content=pieces(MAX_BODY_BYTES), headers=headers)
    assert error_of(response, 413)["code"] == "request_too_large"
    response = friend.post(URL, content=pieces(MAX_BODY_BYTES - 100), headers=headers)
    assert response.status_code == 200


def test_request_ids_are_taken_if_valid_and_made_if_not(client: httpx.Client) -> None:
    assert client.get("/health", headers={"X-Request-Id": "a-1.b_2"}).headers["x-request-id"] == (
        "a-1.b_2"
    )
    made = set()
    for bad in ("x" * 129, "a b", "a\tb", "\xe9", ""):
        headers = httpx.Headers({"X-Request-Id": bad}, encoding="latin-1")
        made.add(client.get("/health", headers=headers).headers["x-request-id"])
    assert len(made) == 5
    assert all(id.startswith("req_") for id in made)
    assert client.get("/nothing", headers={"X-Request-Id": "err"}).headers["x-request-id"] == "err"


def test_two_requests_may_have_the_same_id(server: RunningServer) -> None:
    body = {"input": "A rather long text for tones. " * 5, "seed": 1, "response_format": "pcm"}
    same = {"X-Request-Id": "same"}

    with (
        httpx.stream("POST", server.base_url + URL, json=body, headers=same) as first,
        httpx.stream("POST", server.base_url + URL, json=body, headers=same) as second,
    ):
        assert first.read() == second.read()


def test_logs_carry_the_request_id(
    faulty_client: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[str] = []

    class Spy(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            seen.append(logs.request_id.get())
            return True

    spy = Spy()
    caplog.handler.addFilter(spy)
    headers = {"X-Request-Id": "named"}
    faulty_client.post(URL, json={"input": "0 chunks, then bug"}, headers=headers)
    caplog.handler.removeFilter(spy)
    assert "named" in seen


@pytest.mark.parametrize(
    ("method", "path"),
    [
        *(("GET", path) for path in ("/", "/health", "/v1/models", "/metrics", "/nowhere")),
        *(
            ("GET", path)
            for path in ("/openapi.json", "/v1/media/nothing", "/v2/voices?page_size=x")
        ),
        *(("POST", path) for path in ("/v1/audio/speech", "/v1/images/generations", "/v1/models")),
        *(("OPTIONS", "/v1/audio/speech"), ("HEAD", "/v1/models")),
    ],
)
def test_no_answer_has_its_type_guessed(client: httpx.Client, method: str, path: str) -> None:
    body = {"input": "Hello.", "prompt": "A cat", "size": "64x64"} if method == "POST" else None
    answer = client.request(method, path, json=body)
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]


def test_no_answer_to_what_is_no_request_has_its_type_guessed(server: RunningServer) -> None:
    with raw.dialled(server) as connection:
        connection.sendall(b"no request\r\n\r\n")
        assert b"x-content-type-options: nosniff" in raw.rest(connection).lower()
