"""Many listeners at once: all are served to the end, memory stays bounded, and figures are printed.

``ANTIPHON_TEST_LOAD_S`` makes it go on for longer than one round, 600 for a soak;
``ANTIPHON_TEST_LOAD_STREAMS`` says how many there are of each kind.
"""

import asyncio
import json
import os
import time
from pathlib import Path

import httpx
import numpy as np
import pytest
from websockets.asyncio.client import connect

from antiphon.config import LimitSettings, ModelSettings, Settings
from tests.servers import RunningServer, start_server

DURATION_S = float(os.environ.get("ANTIPHON_TEST_LOAD_S", "0"))
NUM_STREAMS = int(os.environ.get("ANTIPHON_TEST_LOAD_STREAMS", "200"))
TEXT = "Good morning, and welcome aboard."
MAX_GROWTH_MIB = 400
"""Over what the first round has taken: the same work again needs no more."""


async def over_http(client: httpx.AsyncClient, began_s: float) -> float:
    first_s = 0.0
    body = {"input": TEXT, "response_format": "pcm"}
    async with client.stream("POST", "/v1/audio/speech", json=body) as response:
        assert response.status_code == 200
        async for _ in response.aiter_raw():
            first_s = first_s or time.monotonic() - began_s
    return first_s


async def over_websocket(url: str, began_s: float) -> float:
    first_s = 0.0
    async with connect(url, max_size=None, proxy=None, open_timeout=None) as socket:
        config = {"type": "session.config", "response_format": "pcm", "stream_audio": True}
        for message in (config, {"type": "input.text", "text": TEXT}, {"type": "input.done"}):
            await socket.send(json.dumps(message))
        while True:
            received = await socket.recv()
            if isinstance(received, bytes):
                first_s = first_s or time.monotonic() - began_s
            elif json.loads(received)["type"] == "session.done":
                return first_s


async def one_round(server: RunningServer) -> list[float]:
    limits = httpx.Limits(max_connections=None)
    began_s = time.monotonic()
    async with httpx.AsyncClient(base_url=server.base_url, timeout=None, limits=limits) as client:
        url = f"ws://127.0.0.1:{server.port}/v1/audio/speech/stream"
        return await asyncio.gather(
            *(over_http(client, began_s) for _ in range(NUM_STREAMS)),
            *(over_websocket(url, began_s) for _ in range(NUM_STREAMS)),
        )


def resident_mib() -> float:
    """Return how much memory this process has, the server's and the listeners'."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux's /proc")
def test_all_are_served_and_memory_stays_bounded() -> None:
    limits = LimitSettings(max_requests=NUM_STREAMS, max_sockets=NUM_STREAMS)
    # More than the machine can keep gapless: all wait for their turn, however long that takes.
    model = ModelSettings(source="hibari", max_waiting=2 * NUM_STREAMS, max_wait_s=3600)
    settings = Settings(model=model, limits=limits)
    began_s = time.monotonic()
    with start_server(settings) as server:
        first_s: list[float] = []
        after_first_mib = 0.0
        while not first_s or time.monotonic() - began_s < DURATION_S:
            served = asyncio.run(one_round(server))
            assert len(served) == 2 * NUM_STREAMS
            assert all(each > 0 for each in served), "somebody heard nothing"
            first_s += served
            after_first_mib = after_first_mib or resident_mib()
        assert server.num_open == 0
        growth_mib = resident_mib() - after_first_mib
        assert growth_mib < MAX_GROWTH_MIB
    p50_s, p95_s = np.percentile(first_s, (50, 95))
    print(  # noqa: T201
        f"\n{len(first_s)} streams: first audio p50 {p50_s:.2f} s, p95 {p95_s:.2f} s;"
        f" {resident_mib():.0f} MiB, {growth_mib:+.0f} MiB since the first round"
    )
