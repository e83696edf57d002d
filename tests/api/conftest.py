"""Servers that the API's tests share."""

from collections.abc import Generator

import httpx
import pytest

from tests.servers import RunningServer


@pytest.fixture
def client(server: RunningServer) -> Generator[httpx.Client, None, None]:
    with httpx.Client(base_url=server.base_url, timeout=60) as client:
        yield client


@pytest.fixture
def faulty_client(faulty_server: RunningServer) -> Generator[httpx.Client, None, None]:
    with httpx.Client(base_url=faulty_server.base_url, timeout=60) as client:
        yield client
