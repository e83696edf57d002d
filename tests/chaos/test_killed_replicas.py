"""Engine processes that are killed with kill -9 under streams: every client hears all of it.

``ANTIPHON_TEST_ATTACKS_SCALE`` says how many are killed in a row.
"""

import base64
import json
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from tests.chaos.siege import SCALE, scaled
from tests.cli.front_end_servers import front_ends, popen
from tests.cli.test_serve import serving
from tests.front_ends import ServerProcesses
from tests.servers import DEADLINE_S, wait_until
from tests.sockets import Client, audio

pytestmark = pytest.mark.slow  # servers of several processes, which are killed and restarted

SPEECH = "/v1/audio/speech"
NUM_STREAMS = 9
NUM_KILLS = 200
MIN_KILLS = 8
TIMEOUT_S = 4 * DEADLINE_S
SENTENCE = "Hello there, said the fox to the dog. "
LONG = SENTENCE * 50  # too much to lie in buffers while nobody reads
NUM_REPLICAS = 8 if SCALE == 1.0 else 3  # how many are started again in a minute
REPLICAS = f"""
fabric: process
front_ends: 2
stages:
  autoregressive: {{ replicas: {NUM_REPLICAS} }}
"""

OnFirst = Callable[[], None]


def nothing() -> None:
    """Do nothing."""


def by_http(url: str, text: str, seed: int, on_first: OnFirst = nothing) -> bytes:
    body = {"input": text, "seed": seed, "response_format": "pcm"}
    return b"".join(_read(url, body, on_first))


def by_events(url: str, text: str, seed: int, on_first: OnFirst = nothing) -> bytes:
    body = {"input": text, "seed": seed, "response_format": "pcm", "stream_format": "sse"}
    found, is_over = b"", False
    for line in b"".join(_read(url, body, on_first)).decode().splitlines():
        if line.startswith("data: {"):
            event = json.loads(line.removeprefix("data: "))
            is_over |= event["type"] == "speech.audio.done"
            found += base64.b64decode(event.get("audio", ""))
    assert is_over, "the stream was cut off"
    return found


def _read(url: str, body: dict[str, object], on_first: OnFirst) -> Generator[bytes, None, None]:
    small = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)]
    transport = httpx.HTTPTransport(socket_options=small)
    with (
        httpx.Client(transport=transport, timeout=TIMEOUT_S) as client,
        client.stream("POST", url + SPEECH, json=body) as answer,
    ):
        assert answer.status_code == 200, answer.read()
        parts = answer.iter_raw()
        yield next(parts)
        on_first()
        yield from parts


def by_socket(url: str, text: str, seed: int, on_first: OnFirst = nothing) -> bytes:
    """Send the text word by word, the second half after the first audio."""
    address = f"{url.replace('http', 'ws')}{SPEECH}/stream"
    words = [f"{word} " for word in text.split()]
    half = len(words) // 2
    with connect(address, max_size=None, proxy=None, open_timeout=TIMEOUT_S) as connection:
        talk = Client(connection)
        talk.send("session.config", response_format="pcm", stream_audio=True, seed=seed)
        for word in words[:half]:
            talk.send("input.text", text=word)
        received = talk.until(lambda each: isinstance(each, bytes))
        on_first()
        for word in words[half:]:
            talk.send("input.text", text=word)
        talk.send("input.done")
        return audio([*received, *talk.until("session.done")])


WAYS = (by_http, by_events, by_socket)


def expected(url: str, text: str) -> dict[Callable[..., bytes], bytes]:
    """Return what each way gives undisturbed, which for whole texts is the same."""
    found = {way: way(url, text, 5) for way in WAYS}
    assert found[by_http] == found[by_events]
    assert len(found[by_http]) > 10_000
    return found


def engines(server: ServerProcesses) -> dict[int, int]:
    """Return the engines that run, and how many sockets each has open."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has just ended
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            command = (folder / "cmdline").read_text()
            if int(parent) == server.process.pid and "stage_process" in command:
                files = [os.readlink(each) for each in (folder / "fd").iterdir()]
                found[int(folder.name)] = sum(each.startswith("socket") for each in files)
    return found


def kill_engine(server: ServerProcesses, seed: random.Random, num_sockets: int) -> bool:
    """Kill an engine, perhaps one that is starting, unless fewer than two serve; say whether.

    One that serves has as many sockets as it takes for everybody to be connected to it. Engines
    that die often are started ever later: a request would wait in vain if none were left.
    """
    running = engines(server)
    if sum(number >= num_sockets for number in running.values()) < 2:
        return False
    with suppress(ProcessLookupError):
        os.kill(seed.choice(sorted(running)), signal.SIGKILL)
    return True


@pytest.fixture(scope="module")
def running() -> Generator[ServerProcesses, None, None]:
    with front_ends(2) as found:
        yield found


@pytest.fixture(scope="module")
def undisturbed(running: ServerProcesses) -> dict[Callable[..., bytes], bytes]:
    return expected(running.url, LONG)


@pytest.mark.parametrize("moment", ["before", "at", "after"])
def test_streams_outlive_their_engine(
    running: ServerProcesses, undisturbed: dict[Callable[..., bytes], bytes], moment: str
) -> None:
    pid = running.engine()
    has_begun = threading.Barrier(NUM_STREAMS + 1, timeout=TIMEOUT_S)
    is_killed = threading.Event()
    first_begun = threading.Event()

    def on_first() -> None:
        first_begun.set()
        if moment == "after":
            has_begun.wait()
            assert is_killed.wait(TIMEOUT_S)

    def speak(number: int) -> bool:
        way = WAYS[number % len(WAYS)]
        return way(running.url, LONG, 5, on_first) == undisturbed[way]

    with ThreadPoolExecutor(NUM_STREAMS) as pool:
        if moment == "before":
            os.kill(pid, signal.SIGKILL)
        heard = [pool.submit(speak, number) for number in range(NUM_STREAMS)]
        if moment == "at":
            assert first_begun.wait(TIMEOUT_S)
            os.kill(pid, signal.SIGKILL)
        elif moment == "after":
            has_begun.wait()
            os.kill(pid, signal.SIGKILL)
            is_killed.set()
        assert all(each.result() for each in heard)
    wait_until(lambda: running.engine() != pid)
    wait_until(lambda: running.value("antiphon_engine_requests_running") == 0)
    wait_until(lambda: running.value("antiphon_speech_active") == 0)


def test_many_kills_in_a_row_lose_nothing(tmp_path: Path) -> None:
    num_kills = max(MIN_KILLS, scaled(NUM_KILLS))
    placement = tmp_path / "placement.yaml"
    placement.write_text(REPLICAS)
    text = SENTENCE * 4
    with serving(popen, "--placement", str(placement)) as (process, url):
        server = ServerProcesses(process, url)
        server.wait_for(1 + 2 + NUM_REPLICAS)
        undisturbed = expected(server.url, text)
        wait_until(lambda: len({*engines(server).values()}) == 1)
        num_sockets = min(engines(server).values())
        is_over = threading.Event()

        def speak(number: int) -> int:
            num_heard = 0
            while not is_over.is_set():
                way = WAYS[(number + num_heard) % len(WAYS)]
                assert way(server.url, text, 5) == undisturbed[way]
                num_heard += 1
            return num_heard

        seed, num_killed = random.Random(1), 0
        with ThreadPoolExecutor(NUM_STREAMS) as pool:
            speaking = [pool.submit(speak, number) for number in range(NUM_STREAMS)]
            try:
                while num_killed < num_kills:
                    time.sleep(seed.uniform(0.0, 1.0))
                    num_killed += kill_engine(server, seed, num_sockets)
            finally:
                is_over.set()
            num_heard = [each.result() for each in speaking]
        assert all(num_heard)
        print(f"{num_kills} kills: {sum(num_heard)} streams, all of them whole")  # noqa: T201
