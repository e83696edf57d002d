"""GET /v1/audio/speech: a URL is speech, in parts too, and a signed one needs no key."""

import logging
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import httpx
import pytest

from antiphon.api.encoding import FileEncoding
from antiphon.api.middleware import memory_budget
from antiphon.api.speech_get import FIELDS
from antiphon.config import LimitSettings, ServerSettings, Settings
from antiphon.contracts.types import Ended
from tests.decoding import error_of
from tests.servers import TOY, RunningServer, start_server, wait_until

URL = "/v1/audio/speech"
TEXT = "Hello, Zoë & all!"
KEY, OTHER, SECRET = "sk-alice", "sk-bob", "0123456789" * 4
VALUES = {
    "input": TEXT,
    "model": "toy",
    "voice": "bass",
    "response_format": "wav",
    "speed": 1.5,
    "sample_rate": 16000,
    "language": "en",
    "instructions": "Calm.",
    "stream": False,
    "seed": 3,
    "do_sample": True,
    "temperature": 0.5,
    "top_k": 5,
    "top_p": 0.5,
    "repetition_penalty": 1.1,
    "max_new_tokens": 100,
    "min_tokens": 0,
    "ignore_eos": False,
    "normalize": True,
    "loudness_lufs": "off",
}


@pytest.fixture(scope="module")
def keyed() -> Generator[str, None, None]:
    """A server that requires keys and signs URLs."""
    server = ServerSettings(
        api_keys=(f"{KEY} owner=alice", OTHER), url_signing_key=SECRET, log_format="json"
    )
    limits = LimitSettings(key_failures_per_minute=0)
    with start_server(Settings(model=TOY.model, server=server, limits=limits)) as running:
        yield running.base_url


def made(url: str, key: str = KEY, **members: object) -> str:
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx.post(f"{url}{URL}/url", json={"input": TEXT, **members}, headers=headers)
    assert answer.status_code == 200, answer.text
    found: str = answer.json()["url"]
    return found


def spelled(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def test_the_fields_of_a_query_mean_what_those_of_a_body_mean(client: httpx.Client) -> None:
    assert set(VALUES) == set(FIELDS)
    posted = client.post(URL, json=VALUES)
    got = client.get(URL, params={name: spelled(value) for name, value in VALUES.items()})
    assert (posted.status_code, got.status_code) == (200, 200), got.text
    assert got.content == posted.content
    assert got.headers["content-type"] == "audio/wav"
    plain = client.post(URL, json={"input": TEXT, "seed": 3})
    assert client.get(URL, params={"input": TEXT, "seed": "3"}).content == plain.content


def test_the_description_has_the_fields_with_their_types(client: httpx.Client) -> None:
    document = client.get("/openapi.json").json()
    described = {each["name"]: each for each in document["paths"][URL]["get"]["parameters"]}
    assert described.keys() == set(FIELDS)
    assert [name for name, each in described.items() if each["required"]] == ["input"]
    assert described["top_k"]["schema"]["anyOf"][0]["type"] == "integer"
    (reference,) = described["response_format"]["schema"]["anyOf"]
    assert reference["$ref"].rpartition("/")[2] in document["components"]["schemas"]


def test_equal_urls_give_equal_audio_and_its_parts(client: httpx.Client) -> None:
    params = {"input": TEXT, "response_format": "wav", "temperature": "1"}
    streamed = client.get(URL, params=params)
    assert "content-length" not in streamed.headers
    assert streamed.headers["cache-control"] == "private, max-age=3600"
    whole = client.get(URL, params={**params, "stream": "false"})
    assert whole.content[44:] == streamed.content[44:], "the header has another length"
    assert whole.headers["content-length"] == str(len(whole.content))
    assert whole.headers["accept-ranges"] == "bytes"
    head = client.head(URL, params={**params, "stream": "false"})
    assert (head.headers["content-length"], head.content) == (str(len(whole.content)), b"")
    for asked, start, stop in (("0-1", 0, 2), ("50-", 50, None), ("-10", -10, None)):
        part = client.get(URL, params=params, headers={"Range": f"bytes={asked}"})
        assert part.status_code == 206, part.text
        assert part.content == whole.content[start:stop]
        assert part.headers["content-range"].endswith(f"/{len(whole.content)}")
        assert part.headers["etag"] == whole.headers["etag"]
    from_start = client.get(URL, params=params, headers={"Range": "bytes=0-"})
    assert (from_start.status_code, from_start.content) == (200, streamed.content)
    beyond = client.get(URL, params=params, headers={"Range": "bytes=9999999-"})
    error_of(beyond, 416)
    assert beyond.headers["content-range"] == f"bytes */{len(whole.content)}"


@pytest.fixture
def generated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Lengths of the files that are made from now on, no two of which are equal."""
    lengths: list[int] = []
    collected = FileEncoding.collected

    async def unlike(*arguments: Any) -> tuple[list[bytes], Ended]:
        pieces, ended = await collected(*arguments)
        lengths.append(sum(map(len, pieces)))
        return [*pieces[:-1], pieces[-1][:-1], bytes([len(lengths)])], ended

    monkeypatch.setattr(FileEncoding, "collected", unlike)
    return lengths


def test_parts_come_from_one_generation(
    server: RunningServer, generated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    params = {"input": "All of one piece.", "response_format": "pcm", "stream": "false"}

    def get(asked: str, **more: str) -> httpx.Response:
        headers = {"Range": f"bytes={asked}"}
        return httpx.get(server.base_url + URL, params={**params, **more}, headers=headers)

    with ThreadPoolExecutor(4) as pool:
        parts = [*pool.map(get, ("0-999", "1000-", "-1000", "0-"))]
    assert len(generated) == 1
    (length,) = generated
    assert [part.status_code for part in parts] == [206] * 4
    assert len({part.headers["etag"] for part in parts}) == 1
    assert parts[0].content + parts[1].content == parts[3].content
    assert parts[2].content == parts[3].content[-1000:]
    assert {part.headers["x-finish-reason"] for part in parts} == {"stop"}
    assert get("0-", seed="5").content != parts[3].content
    assert len(generated) == 2, "another request is another file"
    assert server.state.guards.memory.num_bytes >= 2 * length, "what is kept is counted"
    error_of(get("0-", voice="nobody"), 404)
    monkeypatch.setattr(memory_budget, "MAX_KEPT_BYTES", length)
    get("0-", seed="6")
    # The oldest make room; what the request itself held is released after its answer.
    wait_until(lambda: server.state.guards.memory.num_bytes == length)
    monkeypatch.setattr(memory_budget, "MAX_KEPT_BYTES", length - 1)
    get("0-", seed="7")
    get("0-", seed="7")
    assert len(generated) == 5, "what is too large is not kept"
    wait_until(lambda: server.state.guards.memory.num_bytes == length)


def test_what_is_kept_is_forgotten(
    server: RunningServer, generated: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_budget, "KEPT_S", 0.0)
    held = server.state.guards.memory.num_bytes
    params = {"input": "Gone at once.", "stream": "false"}
    for number in (1, 2):
        assert httpx.get(server.base_url + URL, params=params).status_code == 200
        wait_until(lambda: server.state.guards.memory.num_bytes == held)
        assert len(generated) == number


def test_nothing_is_kept_where_memory_has_no_room(generated: list[int]) -> None:
    limits = LimitSettings(caller_memory_mib=1)
    text = "Half a mebibyte and more. " * 7
    params = {"input": text, "stream": "false", "response_format": "wav", "sample_rate": "24000"}
    with start_server(TOY.model_copy(update={"limits": limits})) as small:
        for seed in ("1", "2", "2", "1"):
            answer = httpx.get(small.base_url + URL, params={**params, "seed": seed})
            assert answer.status_code == 200, answer.text
        assert 2**19 < generated[0] < 2**20
        assert len(generated) == 3, "the first is kept, the second has no room"


def test_callers_do_not_share_files(keyed: str, generated: list[int]) -> None:
    params = {"input": "Mine or yours?", "stream": "false"}
    for key, number in ((KEY, 1), (OTHER, 2), (KEY, 2)):
        headers = {"Authorization": f"Bearer {key}"}
        assert httpx.get(keyed + URL, params=params, headers=headers).status_code == 200
        assert len(generated) == number


@pytest.mark.parametrize(
    ("query", "param", "message"),
    [
        ("", "input", "Missing"),
        ("input=", "input", "Missing"),
        ("input=%20", "input", "cannot be empty"),
        ("input=a&speed=9", "speed", "at most 4"),
        ("input=a&inpt=b", "inpt", "Did you mean 'input'?"),
        ("input=a&stream_format=sse", "stream_format", "Did you mean"),
        ("input=a&pronunciations={}", "pronunciations", "Known fields: input, model"),
        ("input=a&word_timestamps=true", "word_timestamps", "Unknown field"),
        ("input=a&input=b", "input", "given twice"),
    ],
)
def test_what_is_wrong_is_named(client: httpx.Client, query: str, param: str, message: str) -> None:
    error = error_of(client.get(f"{URL}?{query}"), 400)
    assert error["param"] == param
    assert message in error["message"]


def test_garbage_in_the_place_of_a_signature_changes_nothing_without_keys(
    client: httpx.Client,
) -> None:
    assert client.get(f"{URL}?input=a&expires=x&signature=y").status_code == 200
    url = client.post(f"{URL}/url", json={"input": TEXT}).json()
    assert url["expires_at"] is None
    assert httpx.get(url["url"]).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Referer": "https://evil.example/page"},
        {"Referer": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "cross-site", "Referer": "https://evil.example/page"},
        {"Origin": "https://evil.example"},
    ],
)
def test_elements_of_foreign_pages_start_no_work(
    client: httpx.Client, headers: dict[str, str]
) -> None:
    error_of(client.get(URL, params={"input": "a"}, headers=headers), 403)
    assert client.get("/v1/models", headers=headers).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Site": "same-origin", "Referer": "https://proxy.example/"},
        {"Sec-Fetch-Site": "cross-site", "Referer": "http://localhost:3000/page"},
        {"Referer": "http://nas/music"},
    ],
)
def test_elements_of_own_pages_do(client: httpx.Client, headers: dict[str, str]) -> None:
    assert client.get(URL, params={"input": "a"}, headers=headers).status_code == 200


def test_with_keys_a_url_needs_one_or_a_signature(keyed: str) -> None:
    error = error_of(httpx.get(keyed + URL, params={"input": "a"}), 401)
    assert "POST /v1/audio/speech/url" in error["message"]
    bearer = {"Authorization": f"Bearer {OTHER}"}
    assert httpx.get(keyed + URL, params={"input": "a"}, headers=bearer).status_code == 200
    error_of(httpx.post(f"{keyed}{URL}/url", json={"input": "a"}), 401)
    url = made(keyed, voice="bass", seed=3, response_format="wav", stream=False)
    posted = httpx.post(
        keyed + URL,
        json=dict(input=TEXT, voice="bass", seed=3, response_format="wav", stream=False),
        headers=bearer,
    )
    answer = httpx.get(url)
    assert answer.content == posted.content
    assert httpx.head(url).status_code == 200
    query = urlsplit(url).query
    assert httpx.get(f"{keyed}{URL}?{urlencode(parse_qsl(query)[::-1])}").status_code == 200
    error_of(httpx.get(f"{keyed}/v1/videos?{query}"), 401)
    error_of(httpx.post(f"{keyed}{URL}?{query}", json={"input": "a"}), 401)


def test_a_changed_url_is_refused(keyed: str) -> None:
    url = made(keyed, voice="bass")
    for changed in (
        url.replace("voice=bass", "voice=alto"),
        url.replace("expires=1", "expires=2"),
        f"{url}&speed=2",
        f"{url[:-1]}{'1' if url[-1] == '0' else '0'}",
        url.partition("&signature")[0] + "&signature=",
        url.replace("key_id=", "key_id=0"),
    ):
        error_of(httpx.get(changed), 401)


def test_it_expires(keyed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = made(keyed, expires_in_s=100)
    assert httpx.get(url).headers["cache-control"] in (
        "private, max-age=100",
        "private, max-age=99",
    )
    now_s = time.time()
    monkeypatch.setattr(time, "time", lambda: now_s + 101)
    assert "expired" in error_of(httpx.get(url), 401)["message"]


def test_it_speaks_for_its_key_as_long_as_there_is_one(keyed: str) -> None:
    settings = ServerSettings(api_keys=(OTHER,), url_signing_key=SECRET)
    url = made(keyed)
    with start_server(TOY.model_copy(update={"server": settings})) as other:
        mine, theirs = (
            each.replace(keyed, other.base_url) for each in (url, made(keyed, key=OTHER))
        )
        error_of(httpx.get(mine), 401)
        assert httpx.get(theirs).status_code == 200


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"expires_in_s": 0}, "expires_in_s"),
        ({"expires_in_s": 10**9}, "expires_in_s"),
        ({"speed": 9}, "speed"),
        ({"stream_format": "sse"}, "stream_format"),
        ({"input": " "}, "input"),
        ({"input": "a" * 4097}, "input"),
        ({"instructions": "é" * 5000}, "instructions"),
        ({"voice": "nobody"}, "voice"),
        ({"model": "nothing"}, "model"),
    ],
)
def test_a_wrong_url_is_not_made(
    client: httpx.Client, members: dict[str, object], param: str
) -> None:
    answer = client.post(f"{URL}/url", json={"input": TEXT, **members})
    with client.stream("POST", URL, json={"input": TEXT, **members}) as direct:
        status = 400 if direct.is_success else direct.status_code
    assert error_of(answer, status)["param"] == param


def test_without_a_secret_none_is_signed() -> None:
    settings = TOY.model_copy(update={"server": ServerSettings(api_keys=(KEY,))})
    with start_server(settings) as server:
        headers = {"Authorization": f"Bearer {KEY}"}
        answer = httpx.post(f"{server.base_url}{URL}/url", json={"input": "a"}, headers=headers)
        assert "server.url_signing_key" in error_of(answer, 400)["message"]
        signed = httpx.get(f"{server.base_url}{URL}?input=a&signature=0")
        assert "server.url_signing_key" in error_of(signed, 401)["message"]


def test_neither_text_nor_signature_is_logged(keyed: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    url = made(keyed, input="a private matter")
    signature = url.rpartition("=")[2]
    for asked in (url, url + "0", f"{url}&speed=x"):
        httpx.get(asked)
    logged = [
        record.getMessage() for record in caplog.records if record.name.startswith("antiphon")
    ]
    assert any("GET /v1/audio/speech 200" in message for message in logged)
    assert not any(signature in message or "private" in message for message in logged)
