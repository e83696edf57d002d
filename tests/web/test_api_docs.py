"""The page that shows the API's description: everything it needs comes from this server."""

import re
from collections.abc import Iterator

import httpx
import pytest

from tests.servers import RunningServer


@pytest.fixture
def get(server: RunningServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.base_url) as client:
        yield client


def test_the_page_and_all_that_it_loads_are_here(get: httpx.Client) -> None:
    page = get.get("/docs")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert len(loaded) >= 4
    for address in loaded:
        assert "//" not in address, "another server"
        assert get.get(f"/{address}").status_code == 200, address
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "http" not in policy


def test_nothing_else_is_served_below_it(get: httpx.Client) -> None:
    for name in ("nothing.js", "..%2f__init__.py", "__init__.py", "index.html"):
        assert get.get(f"/docs/{name}").status_code == 404
