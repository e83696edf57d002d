"""Servers that the tests of the API, of its clients and of the page share."""

from collections.abc import Generator

import pytest

from antiphon.config import ModelSettings, Settings
from tests import faulty
from tests.servers import TOY, RunningServer, start_server, wait_until


@pytest.fixture(scope="session")
def server() -> Generator[RunningServer, None, None]:
    """A server of the toy model, shared by all tests."""
    with start_server(TOY) as running:
        wait_until(lambda: running.state.is_ready)
        yield running


@pytest.fixture(scope="module")
def faulty_server() -> Generator[RunningServer, None, None]:
    """A server of the family that does what its input says; registered for a module at a time."""
    settings = Settings(model=ModelSettings(source="faulty"))
    with pytest.MonkeyPatch.context() as monkeypatch:
        faulty.register(monkeypatch)
        with start_server(settings, send_buffer_bytes=32 * 1024) as running:
            wait_until(lambda: running.state.is_ready)
            yield running
