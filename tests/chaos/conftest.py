"""Watches for whatever a fault may leave behind: streams, tasks, places, open files."""

import asyncio
import os
from collections.abc import Generator
from typing import Any

import pytest

from tests.servers import RunningServer, wait_until


@pytest.fixture
def nothing_left(faulty_server: RunningServer) -> Generator[None, None, None]:
    tasks, files = settled_tasks(faulty_server), num_files()
    yield
    wait_until(lambda: faulty_server.num_open == 0)
    wait_until(lambda: faulty_server.tasks() <= tasks)
    wait_until(lambda: faulty_server.state.guards.connections.num_open["http"] == 0)
    wait_until(lambda: faulty_server.state.guards.connections.num_open["websocket"] == 0)
    wait_until(lambda: num_files() <= files)


def settled_tasks(server: RunningServer) -> set["asyncio.Task[Any]"]:
    """Return the server's tasks once nobody is connected any more."""
    wait_until(lambda: server.num_open == 0)
    wait_until(lambda: server.state.guards.connections.num_open["http"] == 0)
    return server.tasks()


def num_files() -> int:
    """Return how many files and sockets this process has open, 0 where that is not told."""
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
