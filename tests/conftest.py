"""A server that the tests of the API and of its clients share."""

from collections.abc import Generator

import pytest

from tests.servers import TOY, RunningServer, start_server, wait_until


@pytest.fixture(scope="session")
def server() -> Generator[RunningServer, None, None]:
    """A server of the toy model, shared by all tests."""
    with start_server(TOY) as running:
        wait_until(lambda: running.state.is_ready)
        yield running
