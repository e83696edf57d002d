"""A connection is freed when it ends, and probes are answered before all others."""

import gc
import random
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager

import httpx
import pytest

from antiphon.api.audio_outbox import AudioOutbox
from antiphon.api.transport.connection import Connection
from antiphon.api.transport.feed_queue import FeedQueue
from tests.chaos.test_killed_clients import PHASES, kill
from tests.servers import RunningServer, wait_until


@pytest.fixture(scope="module", autouse=True)
def _small_heap() -> None:
    """Leave what tests before have loaded out of collections: torch alone makes each take long."""
    gc.collect()
    gc.freeze()


@contextmanager
def uncollected() -> Generator[None, None, None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def num_alive() -> int:
    # isinstance would ask the objects, of which some (of torch, say) warn when they are asked.
    return sum(issubclass(type(each), Connection | AudioOutbox) for each in gc.get_objects())


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.__name__)
def test_an_ended_connection_is_freed_without_a_garbage_collection(
    server: RunningServer, phase: Callable[[random.Random, socket.socket], None]
) -> None:
    wait_until(lambda: server.state.guards.connections.num_requests == 0)
    with uncollected():
        num_before = num_alive()
        for number in range(5):
            kill(server.port, phase, random.Random(number))
        wait_until(lambda: num_alive() <= num_before)


@pytest.mark.parametrize("path", ["/health", "/ready"])
def test_probes_do_not_wait_for_their_turn(
    server: RunningServer, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(FeedQueue, "_run_turn", lambda self: None)
    assert httpx.get(server.base_url + path).status_code == 200
