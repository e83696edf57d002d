"""NVIDIA Dynamo itself: its front end and workers of ours, with files or etcd as discovery."""

import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import openai
from websockets.sync.client import connect

from tests.servers import DEADLINE_S, wait_until
from tests.sockets import Client

SHORT = "It was a bright cold day in April, and the clocks were striking thirteen. "
LONG = SHORT * 20
PATHS = {
    "speech": "audio/speech",
    "image": "images/generations",
    "video": "videos",
    "realtime": "realtime",
}
SESSION = {
    "type": "realtime",
    "model": "toy",
    "audio": {
        "input": {"format": {"type": "audio/pcm", "rate": 24000}},
        "output": {"voice": "alto", "speed": 1.0, "format": {"type": "audio/pcm", "rate": 24000}},
    },
}
"""Dynamo requires all of these members of ``audio``."""


@dataclass
class Deployment:
    """A front end and its workers."""

    base_url: str
    variables: dict[str, str]
    stack: ExitStack
    folder: Path

    def client(self) -> openai.OpenAI:
        url = f"{self.base_url}/v1"
        return openai.OpenAI(api_key="none", base_url=url, max_retries=0, timeout=DEADLINE_S)

    def num_workers(self) -> int:
        return len(httpx.get(f"{self.base_url}/health").json()["instances"])

    def start_worker(self, task: str = "speech", **variables: str) -> subprocess.Popen[bytes]:
        """Start a worker, and return when the front end knows it."""
        before = self.num_workers()
        kind = ("--realtime",) if task == "realtime" else ("--task", task)
        command = ("antiphon.dynamo.worker", "toy", *kind)
        worker = self.stack.enter_context(
            process(command, {**self.variables, **variables}, self.folder)
        )
        url = f"{self.base_url}/v1/{PATHS[task]}"

        def is_served() -> bool:
            # A front end knows a worker a little before it has routes for what that serves.
            return self.num_workers() > before and httpx.get(url).status_code != 404

        wait_until(lambda: is_served() or worker.poll() is not None)
        assert worker.poll() is None, "the worker ended"
        return worker

    def speech(
        self, text: str, on_first: Callable[[], object] | None = None, **more: object
    ) -> bytes:
        """Return what the SDK receives; call ``on_first`` when it has received something."""
        with (
            self.client() as client,
            client.audio.speech.with_streaming_response.create(
                input=text, model="toy", voice="sine", response_format="pcm", extra_body=more
            ) as response,
        ):
            pieces = response.iter_bytes()
            received = next(pieces)
            if on_first is not None:
                on_first()
            return received + b"".join(pieces)

    @contextmanager
    def talk(self) -> Generator[Client, None, None]:
        """Open a session that has been configured."""
        url = f"{self.base_url.replace('http', 'ws', 1)}/v1/realtime"
        with connect(url, max_size=None, proxy=None) as connection:
            client = Client(connection)
            client.until("session.created")
            client.send("session.update", session=SESSION)
            client.until("session.updated")
            yield client


@contextmanager
def process(
    command: tuple[str, ...], variables: dict[str, str], folder: Path
) -> Generator[subprocess.Popen[bytes], None, None]:
    """Run ``python -m COMMAND`` until the block ends; what it prints is in the folder."""
    with (folder / f"{command[0]}.log").open("ab") as log:
        running = subprocess.Popen(
            (sys.executable, "-m", *command),
            env={**os.environ, **variables},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield running
        finally:
            running.kill()
            running.wait()


def free_port(below: int = 65536) -> int:
    while True:
        wanted = 0 if below == 65536 else random.randrange(10_000, below)
        try:
            with socket.create_server(("127.0.0.1", wanted)) as listener:
                port: int = listener.getsockname()[1]
                return port
        except OSError:  # it is taken
            continue


@contextmanager
def etcd(binary: str, folder: Path) -> Generator[str, None, None]:
    """Run an etcd of its own, and return its address."""
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    flags = {
        "data-dir": str(folder / "etcd"),
        "listen-client-urls": client,
        "advertise-client-urls": client,
        "listen-peer-urls": peer,
        "initial-advertise-peer-urls": peer,
        "initial-cluster": f"default={peer}",
    }
    with subprocess.Popen(
        (binary, *(part for name, value in flags.items() for part in (f"--{name}", value))),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        try:
            yield client
        finally:
            running.kill()


def in_flight(port: int) -> int:
    """Return how many requests the worker with this status port works on."""
    metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text.splitlines()
    name = "dynamo_component_inflight_requests{"
    return sum(int(line.rpartition(" ")[2]) for line in metrics if line.startswith(name))
