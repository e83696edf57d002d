"""Servers on Ray whose head is away, or whose whole cluster has ended."""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

import ray

from antiphon.config import ServerSettings, Settings
from antiphon.fabric.cluster.ray_plan import OUTLIVE_HEAD
from tests.fabric.cluster.ray_nodes import RayNodes, ray_nodes
from tests.servers import DEADLINE_S, TOY, RunningServer, start_server, wait_until

pytestmark = [
    pytest.mark.slow,  # a Ray cluster takes ten seconds to start, its head is away for longer
    # Ray leaves sockets and processes to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]
AWAY_S = 90.0
"""Longer than the 60 s after which Ray's processes exit by default."""
HEAL_S = 4 * DEADLINE_S
NUM_STREAMS = 4
TEXT = "The quick brown fox jumps over the lazy dog, and the dog does not mind at all. "
SPEECH = "/v1/audio/speech"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


@pytest.fixture
def redis(tmp_path: Path) -> Generator[str, None, None]:
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("redis-server is not installed")
    port = free_port()
    command = [program, "--port", str(port), "--save", "", "--dir", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        yield f"127.0.0.1:{port}"
        process.terminate()


def settings(nodes: RayNodes) -> Settings:
    server = ServerSettings(
        fabric="ray",
        ray_address=nodes.address,
        output_modalities=("audio",),
        placement_set=("defaults.replicas=2",),
    )
    return TOY.model_copy(update={"server": server})


@contextmanager
def served(nodes: RayNodes) -> Generator[tuple[RunningServer, httpx.Client], None, None]:
    with (
        start_server(settings(nodes), send_buffer_bytes=32 * 1024) as running,
        httpx.Client(base_url=running.base_url, timeout=HEAL_S) as client,
    ):
        wait_until(lambda: num_replicas(running) == 2)
        yield running, client


def num_replicas(running: RunningServer) -> int:
    [model] = running.state.speech.models.values()
    return model.status.num_replicas


def heal(running: RunningServer) -> None:
    """Wait until all replicas serve again; processes of Ray are started for it."""
    ends_s = time.monotonic() + HEAL_S
    while num_replicas(running) < 2:
        assert time.monotonic() < ends_s, "the cluster does not heal"
        time.sleep(0.2)


def spoken(client: httpx.Client, seed: int, is_back: threading.Event | None = None) -> bytes:
    """Return the audio of a request; read it slowly until the head is back."""
    length = 1 if is_back is None else 12
    body = {"input": TEXT * length, "response_format": "pcm", "seed": seed}
    while True:
        audio = b""
        with client.stream("POST", SPEECH, json=body) as answer:
            if answer.status_code == 429:  # the machine is busy
                time.sleep(1.0)
                continue
            assert answer.status_code == 200, answer.read()
            for piece in answer.iter_raw(4096):
                audio += piece
                if is_back is not None:
                    is_back.wait(1.0)
            return audio


def replica_processes() -> list[int]:
    names = [
        each["name"]
        for each in ray.util.list_named_actors(all_namespaces=True)
        if each["name"].startswith("talker+codec")
    ]
    actors = [ray.get_actor(name, namespace="antiphon") for name in names]
    answers: list[tuple[str, int]] = ray.get([actor.ping.remote() for actor in actors])
    return [pid for _, pid in answers]


def test_streams_and_servers_outlive_the_head_and_heal_with_it(redis: str) -> None:
    """The head is away for 90 s: streams are whole, requests are served, and one of two replicas
    that is killed meanwhile comes back."""
    variables = {"RAY_REDIS_ADDRESS": redis, **OUTLIVE_HEAD}
    with start_server(TOY) as running, httpx.Client(base_url=running.base_url) as client:
        back = threading.Event()
        back.set()
        whole = [spoken(client, seed, back) for seed in range(NUM_STREAMS)]
        short = spoken(client, 7)
    with (
        ray_nodes(variables=variables, gcs_server_port=free_port()) as nodes,
        served(nodes) as (running, client),
        ThreadPoolExecutor(NUM_STREAMS) as threads,
        ExitStack() as stack,
    ):
        doomed, other = replica_processes()
        is_back = threading.Event()
        stack.callback(is_back.set)  # a failure is not to wait for slow readers
        streams = [threads.submit(spoken, client, seed, is_back) for seed in range(NUM_STREAMS)]
        wait_until(lambda: running.num_open == NUM_STREAMS)
        nodes.kill_head()
        ends_s = time.monotonic() + AWAY_S
        os.kill(doomed, signal.SIGKILL)
        while time.monotonic() < ends_s:
            assert spoken(client, 7) == short
            assert client.get("/health").status_code == 200
            time.sleep(1.0)
        assert not any(each.done() for each in streams), "they last longer than the head is away"
        nodes.start_head()
        is_back.set()
        assert [each.result() for each in streams] == whole
        heal(running)
        after = replica_processes()
        assert other in after, "it was never stopped"
        assert doomed not in after
        assert spoken(client, 7) == short


def test_a_server_outlives_its_cluster_and_joins_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """All of Ray ends, and a head that knows nothing begins at the same address."""
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex(32))
    port = free_port()
    with ray_nodes(0, gcs_server_port=port) as nodes:
        serving = served(nodes)
        running, client = serving.__enter__()
        expected = spoken(client, 7)
    try:
        assert client.get("/v1/models").status_code == 200
        with ray_nodes(0, gcs_server_port=port):
            heal(running)
            assert spoken(client, 7) == expected
    finally:
        serving.__exit__(None, None, None)
