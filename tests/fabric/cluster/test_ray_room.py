"""Servers on a Ray cluster of two CPUs: room for each engine, or a reason why there is none."""

import signal
import subprocess
import sys
import threading
from collections.abc import Generator

import pytest

pytest.importorskip("ray", reason="Ray is not installed; the 'ray' extra brings it")

from antiphon.config import ServerSettings
from tests.fabric.cluster.ray_nodes import RayNodes, ray_nodes
from tests.servers import DEADLINE_S, TOY, start_server

pytestmark = [
    pytest.mark.slow,  # a Ray cluster takes ten seconds to start, a replica two
    # Ray leaves sockets and processes to the interpreter's end.
    pytest.mark.filterwarnings(
        "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
    ),
]
IMPOSSIBLE = ("--set", "defaults.cpus=64")


@pytest.fixture(scope="module")
def nodes() -> Generator[RayNodes, None, None]:
    with ray_nodes(num_further=0) as running:
        yield running


def start(nodes: RayNodes, *arguments: str) -> "subprocess.Popen[str]":
    command = ("serve", "toy", "--port", "0", "--fabric", "ray", "--address", nodes.address)
    return subprocess.Popen(
        [sys.executable, "-m", "antiphon", *command, *arguments], stderr=subprocess.PIPE, text=True
    )


def test_a_server_of_more_engines_than_cores_is_ready(nodes: RayNodes) -> None:
    server = ServerSettings(fabric="ray", ray_address=nodes.address, ray_namespace="engines")
    with start_server(TOY.model_copy(update={"server": server})) as running:
        assert sum(model.status.num_replicas for model in running.state.models.tasks) > 2


@pytest.mark.parametrize("num_front_ends", ["0", "2"])
def test_a_server_that_finds_no_room_says_what_is_missing(
    nodes: RayNodes, monkeypatch: pytest.MonkeyPatch, num_front_ends: str
) -> None:
    monkeypatch.setenv("ANTIPHON_SERVER_RAY_PLACE_S", "1")
    with start(nodes, *IMPOSSIBLE, "--front-ends", num_front_ends) as process:
        _, errors = process.communicate(timeout=4 * DEADLINE_S)
    assert process.returncode == 1
    *_, last = errors.splitlines()
    assert last.startswith("antiphon: Ray has placed no replica of 'talker+codec' within 1 s.")
    assert "64 CPU" in last
    assert "2 CPU" in last


@pytest.mark.parametrize(
    ("num_front_ends", "sent"), [("0", signal.SIGTERM), ("0", signal.SIGINT), ("2", signal.SIGTERM)]
)
def test_a_server_that_waits_for_room_ends_in_order(
    nodes: RayNodes, num_front_ends: str, sent: signal.Signals
) -> None:
    with start(nodes, *IMPOSSIBLE, "--front-ends", num_front_ends) as process:
        watch = threading.Timer(4 * DEADLINE_S, process.kill)
        watch.start()
        assert process.stderr is not None
        line = next(line for line in process.stderr if "has placed no replica" in line)
        assert "64 CPU" in line
        process.send_signal(sent)
        errors = process.stderr.read()
        watch.cancel()
    assert process.returncode == 0
    assert "Thread 0x" not in errors, "the watchdog has ended it"
    assert "Traceback" not in errors
