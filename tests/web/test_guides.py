"""The guides that a server shows: complete, linked within, and open without a key."""

from html.parser import HTMLParser
from posixpath import dirname, join, normpath
from typing import Any

import httpx
import pytest

from antiphon.web.guides import guides
from tests.servers import RunningServer

NAMES = [*guides()]


class Links(HTMLParser):
    """Targets and anchors of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        given = dict(attrs)
        if tag == "a":
            self.targets.append(given["href"])
        if "id" in given:
            assert given["id"] not in self.anchors
            self.anchors.add(given["id"])


def test_they_are_those_of_the_project() -> None:
    assert {"README.md", "CHANGELOG.md", "docs/api.md", "docs/install.md"} <= {*NAMES}
    assert "docs/index.md" not in NAMES


def test_links_lead_somewhere(server: RunningServer) -> None:
    pages = {name: httpx.get(f"{server.base_url}/guides/{name}") for name in NAMES}
    found = {name: Links(page.text) for name, page in pages.items()}
    for name, page in pages.items():
        assert page.status_code == 200, name
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        assert "unsafe" not in page.headers["content-security-policy"]
        assert page.text.count("<h1") == 1, name
        for target in found[name].targets:
            path, _, anchor = target.partition("#")
            at = normpath(join("guides", dirname(name), path)) if path else f"guides/{name}"
            if ":" in path or at in (".", "docs"):
                continue
            other = "README.md" if at == "guides" else at.removeprefix("guides/")
            assert other in found, (name, target)
            assert not anchor or anchor in found[other].anchors, (name, target)


def test_the_first_one_is_at_the_root_and_is_sent_once(server: RunningServer) -> None:
    at = f"{server.base_url}/guides/"
    first = httpx.get(at)
    assert first.content == httpx.get(f"{at}README.md").content
    again = httpx.get(at, headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    moved = httpx.get(at.rstrip("/"), follow_redirects=True)
    assert (moved.url, moved.content) == (httpx.URL(at), first.content)
    assert 'href="guides/"' in httpx.get(server.base_url).text


@pytest.mark.parametrize("name", ["nothing.md", "docs", "docs/index.md", "..%2Fpyproject.toml"])
def test_nothing_else_is_shown(server: RunningServer, name: str) -> None:
    answer = httpx.get(f"{server.base_url}/guides/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "not_found"


def test_they_need_no_key(locked_server: RunningServer) -> None:
    assert httpx.get(f"{locked_server.base_url}/guides/docs/voices.md").status_code == 200
