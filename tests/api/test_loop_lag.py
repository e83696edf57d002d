"""The event loop's lag is in the metrics, and whatever holds the loop shows in it."""

import asyncio
import time

import httpx

from antiphon.api.loop_lag import INTERVAL_S, LoopLag
from antiphon.telemetry.metrics import Metrics
from tests.servers import wait_until


async def test_what_holds_the_loop_is_seen() -> None:
    metrics = Metrics()

    def lag(name: str) -> float:
        name = f"antiphon_event_loop_lag_seconds_{name}"
        return metrics.registry.get_sample_value(name, {"front_end": "0"}) or 0.0

    measured = LoopLag(metrics.event_loop_lag_s.labels(0))
    time.sleep(2 * INTERVAL_S)
    while not lag("count"):
        await asyncio.sleep(0)
    measured.stop()
    assert lag("sum") >= INTERVAL_S / 2


def test_a_server_measures_itself(client: httpx.Client) -> None:
    wait_until(
        lambda: b'antiphon_event_loop_lag_seconds_count{front_end="0"} 0.0' not in scraped(client)
    )


def scraped(client: httpx.Client) -> bytes:
    return client.get("/metrics").content
