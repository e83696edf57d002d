"""A run reports in lines of JSON wherever stdout goes, and draws a bar on a terminal alone."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

RUN = """
import sys
from pathlib import Path
from antiphon_training.log import Log, shown_bar
with shown_bar("codec", sys.argv[2] == "first") as show:
    for step in range(5):
        show(step / 5)
        Log(Path(sys.argv[1])).write(step=step)
    show(1.0)
"""


def run(log: Path, rank: str, *, on_terminal: bool) -> tuple[str, str]:
    """Run with stdout in a pipe; return it, and what stderr got."""
    terminal, stderr = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": ":".join(sys.path), "TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.run(
        [sys.executable, "-c", RUN, str(log), rank],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=stderr if on_terminal else subprocess.PIPE,
        text=True,
        check=True,
    )
    os.close(stderr)
    shown = bytearray()
    try:
        while piece := os.read(terminal, 4096):
            shown += piece
    except OSError:  # the other side is closed
        pass
    os.close(terminal)
    return process.stdout, shown.decode() if on_terminal else process.stderr


@pytest.mark.parametrize("on_terminal", [True, False])
def test_lines_stay_lines_beside_a_bar(tmp_path: Path, on_terminal: bool) -> None:
    log = tmp_path / "log.jsonl"
    stdout, stderr = run(log, "first", on_terminal=on_terminal)
    assert [json.loads(line)["step"] for line in stdout.splitlines()] == [*range(5)]
    assert log.read_text() == stdout
    if on_terminal:
        assert "codec" in stderr
        assert "100%" in stderr
    else:
        assert stderr == ""


def test_one_process_of_several_draws(tmp_path: Path) -> None:
    assert run(tmp_path / "log.jsonl", "second", on_terminal=True)[1] == ""
