"""Every address says which methods it has; a WebSocket that is not there is told in HTTP."""

import json
import re

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.api.fuzzing import document
from tests.decoding import error_of
from tests.servers import RunningServer

METHODS = ("GET", "PUT", "POST", "DELETE", "PATCH")
PATHS = {path: set(methods) for path, methods in document()["paths"].items()}


@pytest.mark.parametrize("path", PATHS)
def test_other_methods_get_405_and_are_told_which_there_are(
    client: httpx.Client, path: str
) -> None:
    # ids that cannot be there, so that nothing is changed
    url = path.replace("{", "no-").replace("}", "")
    found = [each for each in PATHS if re.fullmatch(re.sub(r"{\w+}", "[^/]+", each), url)]
    declared = {method.upper() for each in found for method in PATHS[each]}
    wanted = declared | {"OPTIONS"} | ({"HEAD"} if "GET" in declared else set())
    for method in (*METHODS, *(() if "GET" in declared else ("HEAD",))):
        if method in declared:
            continue
        response = client.request(method, url)
        assert response.status_code == 405, method
        assert set(response.headers["allow"].split(", ")) == wanted
        if method != "HEAD":
            assert error_of(response, 405)["code"] == "method_not_allowed"
    options = client.options(url)
    assert (options.status_code, options.content) == (204, b"")
    assert set(options.headers["allow"].split(", ")) == wanted


@pytest.mark.parametrize(
    "path", [path for path, methods in PATHS.items() if "get" in methods and "{" not in path]
)
def test_head_is_get_without_its_body(client: httpx.Client, path: str) -> None:
    head, get = client.head(path), client.get(path)
    assert (head.status_code, head.content) == (get.status_code, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert client.get("/health").status_code == 200, "the connection goes on"


@pytest.mark.parametrize(
    "path",
    ["/v2/voices?page_size=x", "/v1/audio/speech/jobs?limit=x", "/v1/media/nothing"],
)
def test_head_of_an_error_has_the_headers_of_get(server: RunningServer, path: str) -> None:
    url = f"{server.base_url}{path}"
    with httpx.Client(timeout=60) as client:
        head, get = client.head(url), client.get(url)
        assert (head.status_code, head.content) == (get.status_code, b"")
        for name in ("content-type", "content-length"):
            assert head.headers.get(name) == get.headers.get(name)
        assert len({each.extensions["network_stream"] for each in (head, get)}) == 1, "it goes on"


def test_the_head_of_a_stream_ends(client: httpx.Client) -> None:
    job = client.post("/v1/audio/speech/jobs", json={"input": "Hello."}).json()
    url = f"/v1/audio/speech/jobs/{job['id']}"
    client.post(f"{url}/pause")
    assert client.head(f"{url}/events").headers["content-type"].startswith("text/event-stream")
    client.delete(url)


def test_what_is_nowhere_stays_404(client: httpx.Client) -> None:
    for method in (*METHODS, "OPTIONS"):
        assert error_of(client.request(method, "/v1/nothing"), 404)["code"] == "not_found"


@pytest.mark.parametrize("path", ["/v1/nothing", "/v1/models", "/v1/audio/speech", "/a\u0301b"])
def test_a_websocket_that_is_not_there_gets_404_with_an_error(
    server: RunningServer, path: str
) -> None:
    with pytest.raises(InvalidStatus) as caught:
        connect(f"ws://127.0.0.1:{server.port}{httpx.URL(path).raw_path.decode()}")
    response = caught.value.response
    assert response.status_code == 404
    error = json.loads(response.body or b"")["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "not_found")
    assert error["message"].startswith("There is no WebSocket at '")
