"""Runs a part of a measurement as processes of their own, which end with it whatever they do."""

import os
import signal
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal, TypeAlias

ROOT = Path(__file__).parents[2]
Status: TypeAlias = Literal["ok", "failed", "killed"]

_GRACE_S = 10.0
_SECONDS_BETWEEN_LOOKS = 0.05


@dataclass(frozen=True, slots=True)
class Ended:
    """End of a part: its status, the exit status of its last command, and its time.

    A negative exit status is the signal that ended the command.
    """

    status: Status
    exit_status: int
    took_s: float


def run_commands(
    commands: Sequence[Sequence[str]], log: Path, limit_s: float, grace_s: float = _GRACE_S
) -> Ended:
    """Run commands one after the other from the project's root, until one fails.

    Each has a process group of its own, of which nothing is left when this returns, however it
    returns. One that is not done in time is interrupted, as by Ctrl-C, so that it can say what it
    has found so far, and killed a little later.

    Args:
        commands: programs with their arguments.
        log: gets the commands and what they say.
        limit_s: for all of them together.
        grace_s: between the interrupt and the end, beyond the limit.
    """
    begun_s = time.monotonic()
    ended = Ended("ok", 0, 0.0)
    with log.open("wb") as out:
        for command in commands:
            out.write(f"$ {' '.join(command)}\n".encode())
            out.flush()
            left_s = limit_s - (time.monotonic() - begun_s)
            status, exit_status = _run(command, out, left_s, grace_s)
            ended = Ended(status, exit_status, time.monotonic() - begun_s)
            if status != "ok":
                break
    return ended


def _run(
    command: Sequence[str], out: IO[bytes], limit_s: float, grace_s: float
) -> tuple[Status, int]:
    with _held_back(signal.SIGINT, signal.SIGTERM) as received:
        try:
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                # A group, not a session: whoever ends this session ends the parts with it.
                process_group=0,
            )
        except OSError as error:
            out.write(f"{error}\n".encode())
            return "failed", 127
    try:
        for number in received:
            signal.raise_signal(number)
        exit_status = process.wait(limit_s)
        return ("failed" if exit_status else "ok"), exit_status
    except subprocess.TimeoutExpired:
        _signal(process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(grace_s)
        _signal(process.pid, signal.SIGKILL)
        return "killed", process.wait()
    finally:
        _end(process, grace_s)


@contextmanager
def _held_back(*numbers: int) -> Generator[list[int], None, None]:
    """Yield a list that gets signals which come in the block, instead of their handlers.

    An exception that a handler raises would lose a process that begins while it is made.
    """
    received: list[int] = []
    usual = [signal.signal(each, lambda number, _: received.append(number)) for each in numbers]
    try:
        yield received
    finally:
        for number, handler in zip(numbers, usual, strict=True):
            signal.signal(number, handler)


def _end(process: "subprocess.Popen[bytes]", grace_s: float) -> None:
    """Kill what is left of a process's group, and wait until it is gone: its memory is then free.

    Whoever has outlived the parent is another's to reap, which may take a moment.
    """
    _signal(process.pid, signal.SIGKILL)
    process.wait()
    until_s = time.monotonic() + grace_s
    while _signal(process.pid, signal.SIGKILL) and time.monotonic() < until_s:
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _signal(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    return True
