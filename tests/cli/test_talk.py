"""`antiphon chat` answers one message, or line after line, and stops an answer on Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
from array import array

import pytest

from tests.cli.conftest import DEADLINE_S, Run

# A shell that starts the tests in the background has them ignore interrupts, and all they start.
INTERRUPTIBLE = """
import runpy, signal
signal.signal(signal.SIGINT, signal.default_int_handler)
runpy.run_module("antiphon", run_name="__main__", alter_sys=True)
"""
TOY = ("--model", "toy", "--temperature", "0")


def test_one_message_is_answered(run: Run) -> None:
    done = run("chat", "Hé 😀", *TOY)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == "You said: Hé 😀\n"
    assert "tokens, the first after" in done.stderr


def test_lines_are_messages_of_one_conversation() -> None:
    command = [sys.executable, "-m", "antiphon", "chat", *TOY, "--max-tokens", "4"]
    lines = "one\n\n/clear\n" + "x" * 9000 + "\ntwo\n/exit\nthree\n"
    done = subprocess.run(
        command, input=lines, capture_output=True, text=True, timeout=DEADLINE_S, check=True
    )
    assert done.stdout == "You said: o\nYou said: t\n"
    assert "context has room for" in done.stderr, "a message that is refused ends nothing"
    assert "cut off" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="needs signals, and a pipe of a given size")
def test_an_interrupt_stops_the_answer_and_not_the_talk() -> None:
    import fcntl  # there is none on Windows
    import termios

    command = [sys.executable, "-u", "-c", INTERRUPTIBLE, "chat", *TOY]
    with subprocess.Popen(
        command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        # Two answers do not fit into it: the second cannot be written before it is interrupted.
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        process.stdin.write(b"x" * 2000 + b"\n/clear\n" + b"y" * 3000 + b"\n")
        latest_s = time.monotonic() + DEADLINE_S
        num_waiting = array("i", [0])
        while num_waiting[0] < 4000 and time.monotonic() < latest_s:
            time.sleep(0.01)
            fcntl.ioctl(process.stdout, termios.FIONREAD, num_waiting)
        os.kill(process.pid, signal.SIGINT)
        written, told = process.communicate(b"/clear\ntwo\n", timeout=DEADLINE_S)
    assert process.returncode == 0, told.decode()
    _, stopped, last, _ = written.split(b"\n")
    assert stopped.startswith(b"You said: yyy")
    assert len(stopped) < 3000
    assert told.splitlines()[1] == b"stopped"
    assert last == b"You said: two"


def test_escape_sequences_do_not_reach_the_terminal(run: Run) -> None:
    done = run("chat", "\x1b[2Jhere", *TOY)
    assert done.stdout == "You said: [2Jhere\n"


def test_the_message_is_read_from_a_pipe(run: Run) -> None:
    done = run("chat", "-", *TOY, input="Hello\n")
    assert done.stdout == "You said: Hello\n"
