"""The death of the only front end leaves the engine as it is; a hung one is replaced."""

import os
import signal
from collections.abc import Generator

import pytest

from tests.cli.front_end_servers import front_ends, speak
from tests.front_ends import ServerProcesses
from tests.servers import is_running, wait_until

pytestmark = pytest.mark.slow  # a server of three processes, and front ends that start again


@pytest.fixture(scope="module")
def running() -> Generator[ServerProcesses, None, None]:
    with front_ends(1) as server:
        yield server


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_engine_outlives_the_only_front_end(
    running: ServerProcesses, number: signal.Signals
) -> None:
    expected = speak(running)
    engine, [front_end] = running.engine(), running.front_ends()
    os.kill(front_end, number)
    wait_until(lambda: not is_running(front_end))
    assert speak(running) == expected
    assert running.engine() == engine
    assert running.front_ends() != [front_end]


def test_the_engine_outlives_a_restart_that_was_asked_for(running: ServerProcesses) -> None:
    engine, [front_end] = running.engine(), running.front_ends()
    running.process.send_signal(signal.SIGHUP)
    wait_until(lambda: not is_running(front_end))
    assert speak(running)
    assert running.engine() == engine
