"""The table of where the time to a first sound goes."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow  # a process of its own, whose engine is wrapped for good
def test_parts_of_a_step_follow_the_request_and_precede_its_sound(
    tmp_path: Path,
) -> None:
    command = [sys.executable, "-m", "tests.engine.first_sound_times"]
    command += ["--size", "tiny", "--random-dir", str(tmp_path), "--device", "cpu"]
    command += ["--requests", "14"]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    lines = [line.rsplit(maxsplit=2) for line in told.splitlines()[1:]]
    begun_ms = {name: float(begins) for name, begins, ends in lines if float(ends) >= float(begins)}
    parts = ["_add 1", "schedule 1", "launch 1", "send 1", "wake_all 1", "first chunk"]
    assert [name for name in begun_ms if name in parts] == parts
    assert begun_ms["_add 1"] > 0
