"""Streams through the death of an engine: ``python -m tests.bench.engine_kill``.

A server of our own streams to many clients at once, and one of its engines is killed meanwhile.
Exits with 1 if a stream was not whole.
"""

import asyncio
import os
import re
import signal
import sys
import time
import urllib.request
from dataclasses import asdict
from typing import Any

from antiphon.cli.own_server import own_server
from antiphon_bench.connection import SpeechClient
from antiphon_bench.load import HttpLoad
from antiphon_bench.record import Record
from antiphon_bench.serve import target_of
from antiphon_bench.summary import summarize
from tests.bench.peer import peer_flags, report, weights_of

TEXT = "The kettle is on, and somebody is knocking at the door. " * 20


def engines(url: str) -> dict[str, int]:
    """Return the process ids of a server's engines, by name."""
    found = re.findall(
        r'process_start_time_seconds\{pid="(\d+)",process="(engine[\w-]*)"\}', _read(url)
    )
    return {name: int(pid) for pid, name in found}


def num_migrations(url: str) -> float:
    """Return how many streams have changed replicas."""
    values = re.findall(r"^antiphon_stream_migrations_total\S* (\S+)$", _read(url), re.MULTILINE)
    return sum(map(float, values))


def _read(url: str) -> str:
    with urllib.request.urlopen(f"{url}/metrics", timeout=30) as response:
        text: str = response.read().decode()
        return text


async def streamed(url: str, number: int, frames: int, kill_after_s: float) -> dict[str, Any]:
    """Return the figures of streams that begin at once, and of which one engine is killed."""
    fields = {"response_format": "pcm", "max_new_tokens": frames + 1}
    target = target_of(url, api_key=None, fields=fields)
    await SpeechClient(target).speak(0, TEXT, time.monotonic())  # what is loaded on first use
    found = await asyncio.to_thread(engines, url)
    name, pid = max(found.items())
    clients = [SpeechClient(target) for _ in range(number)]
    due_s = time.monotonic()
    streams = [
        asyncio.create_task(client.speak(index, TEXT, due_s))
        for index, client in enumerate(clients)
    ]
    done, _ = await asyncio.wait(streams, timeout=kill_after_s)
    os.kill(pid, signal.SIGKILL)
    records: list[Record] = await asyncio.gather(*streams)
    longest_s = max(record.audio_s for record in records)
    whole = [each for each in records if each.outcome == "ok" and each.audio_s == longest_s]
    return {
        "engines": sorted(found),
        "killed": name,
        "streams": number,
        "open_at_kill": number - len(done),
        "whole": len(whole),
        "audio_s_each": longest_s,
        "migrations": await asyncio.to_thread(num_migrations, url),
        **asdict(summarize(HttpLoad(concurrency=number), records)),
    }


def main() -> None:
    parser = peer_flags(__doc__.split("\n")[0], "1.7b")
    parser.add_argument("--placement", required=True, help="of the server, with two engines")
    parser.add_argument("--streams", type=int, default=64, help="at once")
    parser.add_argument("--frames", type=int, default=1500, help="of each stream")
    parser.add_argument("--kill-after-s", type=float, default=1.0, help="after the streams begin")
    given = parser.parse_args()
    model = str(weights_of(given, "qwen3_tts", "custom_voice"))
    # An engine takes over the streams of the other one.
    slots = ("--max-slots", str(given.streams))
    with own_server(
        [model, "--device", given.device, "--placement", given.placement, *slots]
    ) as url:
        row = asyncio.run(streamed(url, given.streams, given.frames, given.kill_after_s))
    report(given, "antiphon", [{"placement": given.placement, **row}])
    if row["whole"] < given.streams:
        sys.exit(1)


if __name__ == "__main__":
    main()
