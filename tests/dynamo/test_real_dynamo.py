"""NVIDIA Dynamo itself: its front end and two workers of ours, driven by OpenAI's SDK.

With ``ETCD`` in the environment, the path of an etcd, its discovery is tested beside that by files.
"""

import base64
import logging
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import httpx2
import openai
import pytest

from tests.servers import DEADLINE_S, RunningServer, wait_until

pytest.importorskip("dynamo.common.backend.run", reason="NVIDIA Dynamo is not installed")
pytestmark = [
    pytest.mark.dynamo,
    pytest.mark.slow,  # starts and stops many processes, whose times of grace are waited for
]

logger = logging.getLogger(__name__)

SHORT = "It was a bright cold day in April, and the clocks were striking thirteen. "
LONG = SHORT * 20
NUM_OPEN = 8
NUM_LATER = 52
RATE_HZ = 5
PATHS = {"speech": "audio/speech", "image": "images/generations", "video": "videos"}
MAX_REFUSED = 6
"""Requests that a front end may send to a worker that is dead, before it knows."""


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
        """Workers that the front end knows."""
        return len(httpx.get(f"{self.base_url}/health").json()["instances"])

    def start_worker(self, task: str = "speech", **variables: str) -> subprocess.Popen[bytes]:
        """Start a worker, and return when the front end knows it."""
        before = self.num_workers()
        command = ("antiphon.dynamo.worker", "toy", "--task", task)
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


@pytest.fixture(params=["file", "etcd"])
def deployment(request: pytest.FixtureRequest, tmp_path: Path) -> Generator[Deployment, None, None]:
    """A front end without a worker."""
    with ExitStack() as stack:
        variables = {
            "DYN_DISCOVERY_BACKEND": request.param,
            "DYN_FILE_KV": str(tmp_path / "discovery"),
            "DYN_EVENT_PLANE": "zmq",
            "DYN_TCP_RPC_HOST": "127.0.0.1",
            "ANTIPHON_DATA_DIR": str(tmp_path / "data"),
        }
        if request.param == "etcd":
            if (binary := os.environ.get("ETCD")) is None:
                pytest.skip("ETCD does not name an etcd")
            variables["ETCD_ENDPOINTS"] = stack.enter_context(etcd(binary, tmp_path))
        port = free_port()
        command = ("dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", str(port))
        front_end = stack.enter_context(process(command, variables, tmp_path))
        made = Deployment(f"http://127.0.0.1:{port}", variables, stack, tmp_path)

        def answers() -> bool:
            try:
                return httpx.get(f"{made.base_url}/health").is_success
            except httpx.TransportError:
                return front_end.poll() is not None

        wait_until(answers)
        assert front_end.poll() is None, "the front end ended"
        yield made


def outcomes(deployment: Deployment, end: Callable[[], object]) -> Counter[str]:
    """Count what becomes of streams while a worker ends.

    Streams are opened and their first piece is awaited; the worker ends; then come further
    requests, at a steady rate. One that ends well with wrong bytes fails the test.

    Args:
        deployment: the receiver.
        end: ends a worker.

    Returns:
        How many were whole, cut (the SDK raised midway) or refused (it raised at once).
    """
    expected = {text: deployment.speech(text, seed=1) for text in (LONG, SHORT)}
    begun = threading.Barrier(NUM_OPEN + 1)

    def spoken(text: str) -> str:
        try:
            received = deployment.speech(text, begun.wait if text == LONG else None, seed=1)
        except openai.APIStatusError as error:
            logger.info("%s", error)
            return "refused"
        except httpx2.RemoteProtocolError:  # the SDK lets it through
            return "cut"
        assert received == expected[text], f"{len(received)} bytes of {len(expected[text])}"
        return "whole"

    with ThreadPoolExecutor(NUM_OPEN + NUM_LATER) as pool:
        asked = [pool.submit(spoken, LONG) for _ in range(NUM_OPEN)]
        begun.wait(DEADLINE_S)
        end()
        for _ in range(NUM_LATER):
            asked.append(pool.submit(spoken, SHORT))
            time.sleep(1 / RATE_HZ)
        found = Counter(each.result(2 * DEADLINE_S) for each in asked)
    logger.info("%s", dict(found))
    return found


def test_speech_through_dynamo_is_that_of_the_http_api(
    deployment: Deployment, server: RunningServer
) -> None:
    deployment.start_worker()
    for format, stream in (("pcm", "audio"), ("wav", "audio"), ("mp3", None), ("flac", None)):
        body = {"input": "Hello there.", "response_format": format, "seed": 3}
        url = "/v1/audio/speech"
        through = httpx.post(f"{deployment.base_url}{url}", json={**body, "model": "toy"})
        straight = httpx.post(
            f"{server.base_url}{url}",
            json={**body, **({"stream_format": stream} if stream else {"stream": False})},
        )
        assert through.content == straight.content, format
        assert through.headers["Content-Type"].partition(";")[0].startswith("audio/")


@pytest.mark.parametrize(("task", "more"), [("image", {"n": 2}), ("video", {"seconds": 1})])
def test_pictures_through_dynamo_are_those_of_the_http_api(
    deployment: Deployment, server: RunningServer, task: str, more: dict[str, int]
) -> None:
    deployment.start_worker(task)
    body = {
        "prompt": "A cat",
        "model": "toy",
        "size": "64x32",
        "response_format": "b64_json",
        "nvext": {"seed": 3, "num_inference_steps": 2},
        **more,
    }
    through, straight = (
        httpx.post(f"{url}/v1/{PATHS[task]}", json=body, timeout=DEADLINE_S)
        for url in (deployment.base_url, server.base_url)
    )
    assert through.status_code == 200, through.text
    files, expected = (
        [each["b64_json"] for each in answer.json()["data"]] for answer in (through, straight)
    )
    assert files == expected
    kept = httpx.post(
        f"{deployment.base_url}/v1/{PATHS[task]}",
        json={**body, "response_format": "url"},
        timeout=DEADLINE_S,
    ).json()["data"]
    found = [Path(each["url"].removeprefix("file://")).read_bytes() for each in kept]
    assert [base64.b64encode(each).decode() for each in found] == expected


def test_images_are_drawn_in_chats_through_dynamo(deployment: Deployment) -> None:
    deployment.start_worker("image")
    asked = {"model": "toy", "messages": [{"role": "user", "content": "A cat"}], "seed": 3}
    url = f"{deployment.base_url}/v1/chat/completions"
    (choice,) = httpx.post(url, json=asked, timeout=DEADLINE_S).json()["choices"]
    (part,) = choice["message"]["content"]
    assert part["image_url"]["url"].startswith("data:image/png;base64,")
    streamed = httpx.post(url, json={**asked, "stream": True}, timeout=DEADLINE_S).text
    assert part["image_url"]["url"] in streamed


def test_speech_has_an_address_through_dynamo(deployment: Deployment) -> None:
    deployment.start_worker()
    asked = {"model": "toy", "input": "Hello.", "seed": 3}
    url = f"{deployment.base_url}/v1/audio/speech"
    straight = httpx.post(url, json={**asked, "response_format": "mp3"}).content
    told = httpx.post(url, json={**asked, "response_format": "mp3", "data_source": "url"}).json()
    assert Path(told["data"][0]["url"].removeprefix("file://")).read_bytes() == straight


def test_images_are_edited_through_dynamo(deployment: Deployment, server: RunningServer) -> None:
    deployment.start_worker("image")
    body = {"prompt": "A cat", "model": "toy", "size": "64x32", "nvext": {"seed": 3}}
    drawn = httpx.post(f"{server.base_url}/v1/images/generations", json=body).json()["data"][0]
    address = f"data:image/png;base64,{drawn['b64_json']}"
    through = httpx.post(
        f"{deployment.base_url}/v1/images/edits", json={**body, "input_reference": address}
    ).json()["data"][0]
    straight = httpx.post(
        f"{server.base_url}/v1/images/edits", json={**body, "image": address}
    ).json()["data"][0]
    assert through["b64_json"] == straight["b64_json"] != drawn["b64_json"]


def test_the_sdk_is_told_what_is_wrong(deployment: Deployment) -> None:
    deployment.start_worker()
    for text, members, words in (
        ("Hello.", {"voice": "nobody"}, "Available: sine"),
        (" ", {}, "cannot be empty"),
        ("Hello.", {"seed": "x"}, "an integer"),
        ("Hello.", {"stream_format": "sse"}, "no way to deliver"),
    ):
        with pytest.raises(openai.BadRequestError, match=words):
            deployment.speech(text, None, **members)


def test_a_client_that_leaves_ends_its_request(deployment: Deployment) -> None:
    port = free_port(below=2**15)  # Dynamo reads it as 16 bits with a sign
    deployment.start_worker(DYN_SYSTEM_PORT=str(port), DYN_SYSTEM_HOST="127.0.0.1")

    def in_flight() -> int:
        metrics = httpx.get(f"http://127.0.0.1:{port}/metrics").text.splitlines()
        name = "dynamo_component_inflight_requests{"
        return sum(int(line.rpartition(" ")[2]) for line in metrics if line.startswith(name))

    with httpx.stream(
        "POST",
        f"{deployment.base_url}/v1/audio/speech",
        json={"input": LONG * 60, "model": "toy", "response_format": "pcm"},
    ) as response:
        for _ in response.iter_raw():
            wait_until(lambda: in_flight() == 1)  # Dynamo holds no more than some 20 MB of it
            break
    wait_until(lambda: in_flight() == 0)
    assert deployment.speech("Hello.")


def test_a_worker_that_is_stopped_loses_nothing(deployment: Deployment) -> None:
    workers = [deployment.start_worker() for _ in range(2)]
    found = outcomes(deployment, workers[0].terminate)
    assert found == {"whole": NUM_OPEN + NUM_LATER}
    assert workers[0].wait(DEADLINE_S) == 0


def test_a_worker_that_is_killed_takes_only_its_own_streams_along(deployment: Deployment) -> None:
    workers = [deployment.start_worker() for _ in range(2)]
    found = outcomes(deployment, workers[0].kill)
    assert 0 < found["cut"] < NUM_OPEN  # those of the other worker went on
    assert found["whole"] >= NUM_OPEN + NUM_LATER - found["cut"] - MAX_REFUSED
