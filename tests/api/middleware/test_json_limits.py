"""JSON that costs too much is refused before it is parsed, wherever it comes from."""

import json
from itertools import pairwise
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from hypothesis import given
from hypothesis import strategies as st

from antiphon.api.app import create_app
from antiphon.api.bodies import JsonRoute
from antiphon.api.middleware import json_limits
from antiphon.api.middleware.json_limits import MAX_STRUCTURE_BYTES, MAX_VALUES, JsonMeter
from antiphon.errors import InvalidRequestError
from tests.decoding import error_of
from tests.servers import TOY, RunningServer
from tests.sockets import connected

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.text('"\\\n,[{é\ud800', max_size=9),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def counted(pieces: list[bytes]) -> dict[str, Any]:
    meter = JsonMeter()
    for piece in pieces:
        meter.feed(piece)
    return vars(meter)


@given(VALUES, st.lists(st.integers(0, 200)), st.booleans())
def test_however_it_is_cut_the_same_is_counted(value: Any, cuts: list[int], is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii).encode(errors="surrogatepass")
    at = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(at)]
    whole = counted([text])
    assert counted(pieces) == whole
    assert not whole["_is_in_string"], "it ends where JSON ends"
    assert whole["_num_strings"] == _num_strings(value)


def _num_strings(value: Any) -> int:
    if isinstance(value, dict):
        return sum(1 + _num_strings(each) for each in value.values())
    if isinstance(value, list):
        return sum(map(_num_strings, value))
    return int(isinstance(value, str))


HEAVY = {
    "lists": b'{"input": "Hi.", "a": [' + b"[]," * MAX_VALUES + b"1]}",
    "members": b'{"input": "Hi."' + b"".join(b',"k%d":1' % i for i in range(MAX_VALUES)) + b"}",
    "numbers": b'{"input": "Hi.", "a": ' + b"9" * (MAX_STRUCTURE_BYTES + 1) + b"}",
    "space": b'{"input": "Hi."' + b" " * (MAX_STRUCTURE_BYTES + 1) + b"}",
    "line breaks": b'{"input": "' + b"\\n" * (json_limits.MAX_SHORT_ESCAPES + 1) + b'"}',
    "letters": b'{"input": "' + "é".encode() * (json_limits.MAX_WIDE_BYTES // 2 + 1) + b'"}',
    "escape": b'{"input": "' + b"a" * json_limits.MAX_WIDE_BYTES + b'\\u00e9"}',
}


@pytest.mark.parametrize("body", HEAVY.values(), ids=HEAVY.keys())
@pytest.mark.parametrize(
    "path",
    [
        *("/v1/audio/speech", "/v1/audio/speech/batch", "/v1/audio/speech/jobs"),
        *("/v1/audio/voices", "/v1/speak", "/v1/text-to-speech/sine"),
    ],
)
def test_it_is_refused_by_all_that_reads_bodies(
    client: httpx.Client, path: str, body: bytes
) -> None:
    answer = client.post(path, content=body, headers={"Content-Type": "application/json"})
    assert error_of(answer, 400)["code"] == "json_too_large"


def test_it_is_refused_on_websockets_and_in_fields_of_forms(server: RunningServer) -> None:
    with connected(server, "/v1/audio/speech/stream") as talk:
        talk.connection.send(HEAVY["lists"].decode())
        (message,) = talk.until("error")
        assert isinstance(message, dict)
        assert message["error"]["code"] == "json_too_large"
    with pytest.raises(InvalidRequestError):
        json_limits.loads(HEAVY["members"])
    assert json_limits.loads('{"a": "' + "x" * 100_000 + '"}') == {"a": "x" * 100_000}


def test_long_texts_and_recordings_pass(client: httpx.Client) -> None:
    text = 'He said: "Well, [yes], no.", and left.\n' * 2000
    body = {"input": text, "unknown": "QUJD" * 1_000_000, "response_format": "pcm"}
    with client.stream("POST", "/v1/audio/speech", json=body) as answer:
        assert answer.status_code == 200


def test_every_route_reads_large_bodies_in_steps() -> None:
    routes = [route for route in create_app(TOY).routes if isinstance(route, APIRoute)]
    reading = [route for route in routes if {"POST", "PUT", "PATCH"} & set(route.methods or ())]
    assert reading
    assert not [route.path for route in reading if not isinstance(route, JsonRoute)]
