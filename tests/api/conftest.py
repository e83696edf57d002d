"""Servers that the API's tests share."""

from collections.abc import Generator

import httpx
import pytest

from antiphon.config import ModelSettings, Settings
from tests import faulty
from tests.servers import RunningServer, start_server, wait_until


@pytest.fixture
def client(server: RunningServer) -> Generator[httpx.Client, None, None]:
    with httpx.Client(base_url=server.base_url, timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def faulty_server() -> Generator[RunningServer, None, None]:
    """A server of the family that does what its input says; registered for a module at a time."""
    settings = Settings(model=ModelSettings(source="faulty"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        faulty.register(monkeypatch)
        with start_server(settings, send_buffer_bytes=32 * 1024) as running:
            wait_until(lambda: running.state.is_ready)
            yield running


@pytest.fixture
def faulty_client(faulty_server: RunningServer) -> Generator[httpx.Client, None, None]:
    with httpx.Client(base_url=faulty_server.base_url, timeout=60) as client:
        yield client
