"""Hostile files: the process that decodes them suffers, and only that one."""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from select import select

import numpy as np
import pytest

from antiphon.audio.decode import decode_audio, refusal
from antiphon.audio.sandbox import DecodeSandbox
from antiphon.contracts.types import Samples
from antiphon.errors import EngineError, InvalidRequestError
from antiphon.sandbox import process
from antiphon.sandbox.fork_server import ForkServer
from antiphon.sandbox.process import Sandbox
from antiphon.sandbox.spawned import SpawnedChildren
from tests.audio.files import tone, written
from tests.audio.hostile import (
    id3_with_a_huge_picture,
    mp4_of_untold_fragments,
    mp4_of_untold_samples,
)
from tests.servers import DEADLINE_S

GOOD = written(tone(44100, 2), 44100, "MP3")


@pytest.fixture(scope="module")
def shared() -> Generator[DecodeSandbox, None, None]:
    decoder = DecodeSandbox()
    yield decoder
    decoder.close()


def decoded(decoder: DecodeSandbox, data: bytes, max_duration_s: float = 30.0) -> Samples:
    return decoder.decode(
        data, sample_rate_hz=24000, max_duration_s=max_duration_s, min_duration_s=1.0
    )


def test_it_does_what_decoding_here_does(shared: DecodeSandbox) -> None:
    expected = decode_audio(GOOD, sample_rate_hz=24000, max_duration_s=30)
    for _ in range(2):  # by a fresh child, and by one that has waited
        np.testing.assert_array_equal(decoded(shared, GOOD), expected)
    for data, limit_s, message in [
        (b"?", 30, "Could not decode audio: it is not a readable"),
        (b"", 30, "Could not decode audio: it is not a readable"),
        (written(tone(8000, 0.3), 8000, "WAV"), 30, r"too short \(0\.3s\)"),
        (GOOD, 1, r"too long \(2\.\ds\)"),
    ]:
        with pytest.raises(InvalidRequestError, match=message) as refused:
            decoded(shared, data, limit_s)
        assert refused.value.param == "ref_audio"


def test_hostile_files_are_refused_or_heard(shared: DecodeSandbox) -> None:
    for data in (mp4_of_untold_samples(), mp4_of_untold_fragments()):
        assert len(data) < 2000
        with pytest.raises(InvalidRequestError):
            decoded(shared, data)
    assert len(decoded(shared, id3_with_a_huge_picture(64_000_000) + GOOD)) > 0


def test_a_file_that_needs_more_than_there_is_ends_its_own_child() -> None:
    decoder = DecodeSandbox(max_memory_bytes=48_000_000)
    try:
        assert len(decoded(decoder, GOOD)) > 0
        with pytest.raises(InvalidRequestError, match="needs too much memory"):
            decoded(decoder, bytes(64_000_000))
        with pytest.raises(InvalidRequestError, match="Could not decode audio"):
            decoded(decoder, mp4_of_untold_fragments())
        assert len(decoded(decoder, GOOD)) > 0
    finally:
        decoder.close()


def output_of_child(code: str, *paths: Path) -> str:
    """Run code that stands where a child has given up its rights."""
    begin = "import sys; num_paths = int(sys.argv[1]); paths = sys.argv[2 : 2 + num_paths]"
    begin += "; sys.path[:] = sys.argv[2 + num_paths :]\n"
    begin += "from antiphon.audio import sandbox\nfrom antiphon.sandbox import process\n"
    command = [sys.executable, "-I", "-c", begin + code, str(len(paths)), *map(str, paths)]
    done = subprocess.run([*command, *sys.path], capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="memory is bounded on Linux only")
def test_hostile_files_take_no_more_memory_than_is_allowed(tmp_path: Path) -> None:
    code = """
data = open(paths[0], "rb").read()
status = open("/proc/self/status")
sandbox.prepare()
process.give_up_rights(128 * 1024 * 1024)
try:
    sandbox.decode_audio(data, sample_rate_hz=24000, max_duration_s=30)
except sandbox.InvalidRequestError:
    pass
print(status.read())
"""
    picture = id3_with_a_huge_picture(200_000_000)
    for data in (mp4_of_untold_samples(), mp4_of_untold_fragments(), picture + GOOD):
        hostile = tmp_path / "hostile"
        hostile.write_bytes(data)
        peak = re.search(r"VmHWM:\s+(\d+) kB", output_of_child(code, hostile))
        assert peak is not None
        assert int(peak[1]) < 256 * 1024


@pytest.mark.skipif(sys.platform == "win32", reason="rights are given up on POSIX only")
def test_a_child_opens_nothing(tmp_path: Path) -> None:
    code = """
import socket
process.give_up_rights(128 * 1024 * 1024)
for attempt in (lambda: open(paths[0]), socket.socket):
    try:
        attempt()
    except OSError:
        print("refused")
"""
    file = tmp_path / "file"
    file.touch()
    assert output_of_child(code, file) == "refused\n" * 2


linux_only = pytest.mark.skipif(sys.platform != "linux", reason="children are forked on Linux only")
both = pytest.mark.parametrize("forks", [pytest.param(True, marks=linux_only), False])


@contextmanager
def opened(*, forks: bool) -> Iterator[tuple[Sandbox, ForkServer | SpawnedChildren]]:
    sandbox = Sandbox("antiphon.audio.sandbox", refusal, forks=forks)
    try:
        yield sandbox, sandbox._children
    finally:
        sandbox.close()


def asked(sandbox: Sandbox) -> int:
    return len(sandbox.ask(GOOD, sample_rate_hz=24000, max_duration_s=30.0))


def waiting(children: ForkServer | SpawnedChildren) -> "subprocess.Popen[bytes]":
    process = children._process if isinstance(children, ForkServer) else children._spare
    assert process is not None
    return process


@both
def test_a_child_that_takes_too_long_is_a_refusal_and_the_next_one_works(
    forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(forks=forks) as (sandbox, _):
        assert asked(sandbox) > 0
        monkeypatch.setattr(process, "_MAX_WAIT_S", 0.0)
        with pytest.raises(InvalidRequestError, match="too much time"):
            asked(sandbox)
        monkeypatch.undo()
        assert asked(sandbox) > 0


@both
def test_what_was_killed_while_it_waited_is_started_again(forks: bool) -> None:
    with opened(forks=forks) as (sandbox, children):
        sandbox.start()
        pid = waiting(children).pid
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert asked(sandbox) > 0


@linux_only
def test_many_files_at_once_have_a_child_each_and_leave_none() -> None:
    with opened(forks=True) as (sandbox, children):
        with ThreadPoolExecutor(8) as pool:
            lengths = set(pool.map(lambda _: asked(sandbox), range(24)))
        assert len(lengths) == 1
        pid = waiting(children).pid
        left = Path(f"/proc/{pid}/task/{pid}/children")
        if left.exists():
            assert left.read_text(encoding="ascii").split() == []
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        assert re.search(r"Threads:\s+1\n", status), "what is forked would miss the others"


@linux_only
@pytest.mark.parametrize("question", [b"", b"{", b"{}\n" + GOOD], ids=["none", "half", "whole"])
def test_nothing_is_said_when_whoever_asks_was_killed(
    question: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    children = ForkServer(
        partial(process._command, str(1 << 28), "antiphon.audio.sandbox", process._FORKS)
    )
    children.start()
    forks, control = waiting(children), children._control
    assert control is not None
    ours, theirs = socket.socketpair()
    with ours, theirs:
        socket.send_fds(control, [struct.pack("<ci", b"f", 0)], [theirs.fileno()])
        ours.sendall(question)
        (pid,) = struct.unpack("<i", control.recv(4, socket.MSG_PEEK))  # it stays unread
    control.close()
    assert forks.wait(DEADLINE_S) == 0
    with suppress(ProcessLookupError), open(os.pidfd_open(pid), "rb") as child:
        select([child], [], [], DEADLINE_S)  # until it has ended
    assert capfd.readouterr().err == ""


@both
def test_a_child_that_cannot_start_is_our_fault(
    forks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(forks=forks) as (sandbox, _):
        monkeypatch.setattr(process, "_CHILD", "")
        with pytest.raises(EngineError, match="failed to start"):
            asked(sandbox)
        sandbox.close()
        monkeypatch.setattr(sys, "executable", os.devnull)
        with pytest.raises(EngineError, match="No process"):
            asked(sandbox)


@both
def test_closing_ends_what_waits(forks: bool) -> None:
    with opened(forks=forks) as (sandbox, children):
        assert asked(sandbox) > 0
        ended = waiting(children)
        sandbox.close()
        assert ended.poll() is not None
