"""Works on untrusted files, each in a process of its own without rights.

A file of 500 bytes can make a parser allocate gigabytes (tables whose length is declared, not
stored; compressed headers), and parsers in C have bugs. So whatever comes over the network is
decoded by a child that has little memory, little time and no way to open anything. The worst
that a file can do is to end its own child.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from antiphon.errors import EngineError, InvalidRequestError
from antiphon.sandbox.seccomp import restrict_to_computing

_MAX_CPU_S = 10
_MAX_WAIT_S = 30.0  # longer than the CPU time, for machines that are busy
_READY, _DONE, _REFUSED = b"!", b"+", b"-"
# -I: neither the environment nor the working directory choose what the child imports; we do.
_CHILD = (
    "import sys; sys.path[:] = sys.argv[3:]; from antiphon.sandbox import process as p; p.main()"
)


class Sandbox:
    """Runs a function on files in children, one each; safe for several threads at once.

    After its first file it keeps one child waiting for the next, so that later files do not pay
    for the start of a process (which idles with about 45 MB).
    """

    def __init__(
        self,
        module: str,
        refuse: Callable[[str], InvalidRequestError],
        *,
        max_memory_bytes: int = 512 * 1024 * 1024,
    ) -> None:
        """Begin without a child.

        Args:
            module: by name; of its functions, ``prepare()`` imports all that the work needs, and
                ``answer(data, **limits)`` does it and returns bytes.
            refuse: makes the error for a file that a child did not survive, of the reason.
            max_memory_bytes: that a child may allocate for one file, where we can limit it.
        """
        self._module = module
        self._refuse = refuse
        self._max_memory_bytes = max_memory_bytes
        self._lock = threading.Lock()
        self._spare: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def ask(self, data: bytes, **limits: Any) -> bytes:
        """Return what ``answer(data, **limits)`` does; blocks, so it belongs in a worker thread.

        Args:
            data: the file.
            limits: further arguments, which JSON can hold.

        Raises:
            InvalidRequestError: what ``answer`` raised, or the file would take too much memory or
                time.
            EngineError: the child did not even start.
        """
        try:
            child = self._take_child()
        except OSError as error:
            raise EngineError("No process could be started to decode a file.") from error
        try:
            answer = self._asked(child, json.dumps(limits).encode() + b"\n" + data)
        finally:
            self._restock()
        started, kind, content = answer[:1], answer[1:2], answer[2:]
        if started != _READY:
            raise EngineError("The process that decodes files failed to start.")
        if kind == _DONE and child.returncode == 0:
            return content
        if kind == _REFUSED:
            raise InvalidRequestError(**json.loads(content))
        raise self._refuse("it is damaged, or needs too much memory or time")

    def close(self) -> None:
        """End the waiting child; files under way are worked on to their end."""
        with self._lock:
            self._is_closed = True
            spare, self._spare = self._spare, None
        if spare is not None:
            _end(spare)

    def _take_child(self) -> "subprocess.Popen[bytes]":
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None and spare.poll() is None:
            return spare
        if spare is not None:  # it was killed
            _end(spare)
        return self._started()

    def _restock(self) -> None:
        with self._lock, suppress(OSError):
            if self._spare is None and not self._is_closed:
                self._spare = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        arguments = [str(self._max_memory_bytes), self._module, *sys.path]
        return subprocess.Popen(
            [sys.executable, "-I", "-c", _CHILD, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0 if sys.platform != "win32" else None,  # Ctrl-C is for the server
        )

    def _asked(self, child: "subprocess.Popen[bytes]", question: bytes) -> bytes:
        """Return all that the child says; afterwards it is gone."""
        try:
            return child.communicate(question, timeout=_MAX_WAIT_S)[0]
        except subprocess.TimeoutExpired:
            raise self._refuse("it takes too much time") from None
        finally:
            _end(child)


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    with child:  # closes its pipes and waits for it
        pass


def main() -> None:
    """Be the child: read limits and a file, write the answer or the reason why there is none."""
    max_memory_bytes, module = int(sys.argv[1]), sys.argv[2]
    prepare, answer = (resolve_name(f"{module}:{name}") for name in ("prepare", "answer"))
    prepare()
    give_up_rights(max_memory_bytes)
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    try:
        limits = json.loads(sys.stdin.buffer.readline())
        content = answer(sys.stdin.buffer.read(), **limits)
    except InvalidRequestError as error:
        refusal = {"message": error.message, "param": error.param, "code": error.code}
        sys.stdout.buffer.write(_REFUSED + json.dumps(refusal).encode())
    except MemoryError:
        sys.exit(1)
    else:
        sys.stdout.buffer.write(_DONE + content)
    sys.stdout.buffer.flush()
    os._exit(0)  # at once: there is nothing to tidy up, and the caller waits


def give_up_rights(max_memory_bytes: int) -> None:
    """Bound memory and CPU time, and open nothing any more: no file, no socket, no process."""
    if sys.platform == "win32":
        return
    import resource

    limits = {
        resource.RLIMIT_CPU: _MAX_CPU_S,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 0,
    }
    if sys.platform == "linux":  # elsewhere it is unknown how much is mapped already
        mapped_pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limits[resource.RLIMIT_AS] = mapped_pages * resource.getpagesize() + max_memory_bytes
    limits[resource.RLIMIT_NOFILE] = 0
    for kind, value in limits.items():
        resource.setrlimit(kind, (value, value))
    restrict_to_computing()
