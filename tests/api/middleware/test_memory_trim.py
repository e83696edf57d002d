"""Memory that requests held goes back to the system."""

import asyncio
import gc
import json
from collections.abc import Generator

import pytest
from starlette.requests import ClientDisconnect

from antiphon.api.middleware import memory_budget
from antiphon.api.middleware.memory_budget import MemoryTrimmer, malloc_trim
from antiphon.errors import InputTooLongError
from tests import raw
from tests.servers import RunningServer, wait_until

MIB = 1024 * 1024
HEAD = "POST /v1/audio/speech HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"


@pytest.fixture
def without_collector() -> Generator[None, None, None]:
    """Let only reference counts free things."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize(
    "kind", [InputTooLongError, pytest.param(ClientDisconnect, marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures("without_collector")
def test_no_error_keeps_the_body_that_it_is_about(
    server: RunningServer, kind: type[Exception]
) -> None:
    body = json.dumps({"input": "x" * MIB}).encode()
    held = server.state.guards.memory.num_bytes  # by files that other tests have left there
    for _ in range(5):
        with raw.dialled(server) as connection:
            connection.sendall(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body[:-1])
            wait_until(lambda: server.state.guards.memory.num_bytes >= held + len(body) - 1)
            if kind is InputTooLongError:
                connection.sendall(body[-1:])
                assert raw.head(connection).startswith(b"HTTP/1.1 400 ")
        wait_until(lambda: server.state.guards.memory.num_bytes <= held)
    wait_until(lambda: not any(type(each) is kind for each in gc.get_objects()))


def test_memory_is_trimmed_after_large_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_budget, "TRIM_DELAY_S", 0.0)

    async def trims(*held: int) -> int:
        trimmed = asyncio.Event()
        loop = asyncio.get_running_loop()
        num_trims = 0

        def trim() -> None:
            nonlocal num_trims
            num_trims += 1
            loop.call_soon_threadsafe(trimmed.set)

        trimmer = MemoryTrimmer(trim)
        for num_bytes in held:
            trimmer.see(num_bytes)
            if trimmer._is_due:
                await trimmed.wait()
                trimmed.clear()
        return num_trims

    assert asyncio.run(trims(0, 10 * MIB, 0, 20 * MIB, 0)) == 0
    assert asyncio.run(trims(100 * MIB, 90 * MIB, 60 * MIB, 50 * MIB, 60 * MIB, 20 * MIB)) == 2


def test_trimming_is_harmless() -> None:
    malloc_trim()
