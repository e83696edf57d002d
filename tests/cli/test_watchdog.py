"""A process that hangs is ended, even if nothing of Python runs any more."""

import subprocess
import sys

import pytest

_HANGS = """
import ctypes, sys, threading, time
from antiphon.cli.watchdog import Watchdog
watchdog = Watchdog({unhealthy_s})
{begin}
{hang}
"""
HOLD_THE_LOCK = "ctypes.PyDLL(None).sleep(600)"  # PyDLL keeps the interpreter's lock
HANG_AT_EXIT = "threading.Thread(target=time.sleep, args=(600,)).start()"


def ended(begin: str, hang: str, *, unhealthy_s: float = 0) -> tuple[int, str]:
    code = _HANGS.format(begin=begin, hang=hang, unhealthy_s=unhealthy_s)
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    return child.returncode, child.stderr


@pytest.mark.parametrize("hang", [HOLD_THE_LOCK, HANG_AT_EXIT])
def test_a_process_that_should_end_ends(hang: str) -> None:
    status, told = ended("watchdog.end_within(0.5)", hang)
    assert status == 1
    assert "most recent call first" in told


def test_a_process_that_is_unhealthy_for_too_long_ends() -> None:
    begin = "watchdog.tick(is_healthy=True)"
    hang = "while True: watchdog.tick(is_healthy=False); time.sleep(0.01)"
    assert ended(begin, hang, unhealthy_s=0.5)[0] == 1
    assert ended(begin, HOLD_THE_LOCK, unhealthy_s=0.5)[0] == 1


def test_a_process_that_is_healthy_again_in_time_goes_on() -> None:
    hang = "for _ in range(100): watchdog.tick(is_healthy=True); time.sleep(0.05)"
    assert ended("", hang + "\nwatchdog.stop()", unhealthy_s=3) == (0, "")


def test_without_a_time_only_the_end_is_watched() -> None:
    assert ended("watchdog.tick(is_healthy=True)", "time.sleep(0.2)") == (0, "")
