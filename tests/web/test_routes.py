"""How the page's files are served; no browser needed."""

import re
from collections.abc import Iterator
from importlib.resources import files

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from antiphon.web.routes import page_routes
from tests.servers import RunningServer

STATIC = {entry.name: entry for entry in files("antiphon.web").joinpath("static").iterdir()}
MEDIA_TYPES = {"css": "text/css", "html": "text/html", "js": "text/javascript"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = FastAPI()
    app.router.routes.extend(page_routes())
    with TestClient(app) as client:
        yield client


@pytest.mark.parametrize("name", STATIC)
def test_every_file_has_its_type_and_is_asked_for_again(client: TestClient, name: str) -> None:
    response = client.get(f"/static/{name}")
    assert response.content == STATIC[name].read_bytes()
    expected = MEDIA_TYPES.get(name.rpartition(".")[2], "image/svg+xml")
    assert response.headers["Content-Type"].partition(";")[0] == expected
    assert response.headers["X-Content-Type-Options"] == "nosniff"
    assert response.headers["X-Frame-Options"] == "DENY"
    assert response.headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert "microphone=(self)" in response.headers["Permissions-Policy"]
    assert response.headers["Cache-Control"] == "no-cache"


def test_the_root_is_the_page(client: TestClient) -> None:
    assert client.get("/").content == STATIC["index.html"].read_bytes()


def test_a_known_version_is_not_sent_again(client: TestClient) -> None:
    tag = client.get("/").headers["ETag"]
    for known in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        again = client.get("/", headers={"If-None-Match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert again.headers["ETag"] == tag
    assert client.get("/", headers={"If-None-Match": '"other"'}).status_code == 200


def test_versions_differ_between_files(client: TestClient) -> None:
    tags = {client.get(f"/static/{name}").headers["ETag"] for name in STATIC}
    assert len(tags) == len(STATIC)


def test_head_tells_the_length(client: TestClient) -> None:
    response = client.head("/")
    assert response.content == b""
    assert int(response.headers["Content-Length"]) == len(STATIC["index.html"].read_bytes())


@pytest.mark.parametrize("name", ["nothing.js", "..%2Froutes.py", "%2e%2e/routes.py", ""])
def test_nothing_else_is_served(client: TestClient, name: str) -> None:
    assert client.get(f"/static/{name}").status_code == 404


def test_the_policy_allows_nothing_from_elsewhere_and_nothing_inline(client: TestClient) -> None:
    policy = client.get("/").headers["Content-Security-Policy"]
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert "unsafe" not in policy


@pytest.mark.parametrize("name", [name for name in STATIC if not name.endswith(".svg")])
def test_files_name_no_other_host_and_only_files_that_exist(name: str) -> None:
    text = STATIC[name].read_text(encoding="utf-8")
    assert not re.search(r"https?://", text)
    named = re.findall(r"""(?:from |href=|src=|URL\()["'](?:static/|\./)?([\w-]+\.\w+)["']""", text)
    assert set(named) <= STATIC.keys()


def test_all_modules_are_fetched_at_once() -> None:
    page = STATIC["index.html"].read_text(encoding="utf-8")
    fetched = set(re.findall(r'href="static/([\w-]+\.js)"', page))
    assert fetched == {name for name in STATIC if name.endswith(".js")} - {
        "app.js",
        "player-worklet.js",
    }


def test_the_server_shows_the_page(server: RunningServer) -> None:
    assert httpx.get(server.base_url).content == STATIC["index.html"].read_bytes()
    missing = httpx.get(f"{server.base_url}/static/nothing.js")
    assert missing.status_code == 404
    assert missing.json()["error"]["code"] == "not_found"


def test_the_api_does_not_list_the_page(client: TestClient) -> None:
    assert client.get("/openapi.json").json()["paths"] == {}
