"""A process that has given its rights up can compute, and nothing else."""

import platform
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"),
    reason="the filter is for Linux on x86-64 and arm64",
)

_CHILD = """
import mmap, os, socket, subprocess, sys, threading
import numpy as np
from antiphon.sandbox.seccomp import restrict_to_computing
assert restrict_to_computing()
try:
    {attempt}
except PermissionError:
    print("refused")
else:
    print("allowed")
sys.stdout.flush()
os._exit(0)
"""


def outcome(attempt: str) -> str:
    child = [sys.executable, "-c", _CHILD.format(attempt=attempt)]
    return subprocess.run(child, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "attempt",
    [
        "socket.socket()",
        "socket.socketpair()",
        "open('/etc/passwd')",
        "os.open('/tmp/new', os.O_CREAT)",
        "os.listdir('/')",
        "os.stat('/')",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.posix_spawn('/bin/true', ['true'], {{}})",
        "os.kill(os.getppid(), 0)",
        "os.unlink('/tmp/none')",
        "os.chdir('/')",
        "os.pipe()",
        "os.memfd_create('x')",
        "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
        "os.setpriority(os.PRIO_PROCESS, 0, 5)",
    ],
)
def test_what_reaches_out_is_refused(attempt: str) -> None:
    assert outcome(attempt.replace("{{}}", "{}")) == "refused"


@pytest.mark.parametrize(
    "attempt",
    [
        "np.ones((500, 500)) @ np.ones((500, 500))",
        "bytearray(64 * 1024 * 1024)",
        "thread = threading.Thread(target=print, args=('',)); thread.start(); thread.join()",
        "mmap.mmap(-1, 4096)",
        "os.write(1, b''); os.urandom(8); sys.stdin.read(0)",
    ],
)
def test_computing_goes_on(attempt: str) -> None:
    assert outcome(attempt) == "allowed"
