"""Works on untrusted files, each in a process of its own without rights.

A file of 500 bytes can make a parser allocate gigabytes (tables whose length is declared, not
stored; compressed headers), and parsers in C have bugs. So whatever comes over the network is
decoded by a child that has little memory, little time and no way to open anything. The worst
that a file can do is to end its own child.
"""

import json
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from antiphon.errors import EngineError, InvalidRequestError
from antiphon.sandbox.fork_server import ForkServer, ForkServerLostError, avoid_threads, serve
from antiphon.sandbox.seccomp import restrict_to_computing
from antiphon.sandbox.spawned import SpawnedChildren

_MAX_CPU_S = 10
_MAX_WAIT_S = 30.0  # longer than the CPU time, for machines that are busy
_READY, _DONE, _REFUSED = b"!", b"+", b"-"
_FORKS, _WORKS = "forks", "works"  # what a started process does
_NOT_STARTED = "The process that decodes files failed to start."
# -I: neither the environment nor the working directory choose what the child imports; we do.
_CHILD = (
    "import sys; sys.path[:] = sys.argv[4:]; from antiphon.sandbox import process as p; p.main()"
)


class Sandbox:
    """Runs a function on files in children, one each; safe for several threads at once.

    On Linux they are forked from a process that has imported what they need, and is started for
    the first of them. Elsewhere one started child waits for the next file. Either idles with about
    45 MB.
    """

    def __init__(
        self,
        module: str,
        refuse: Callable[[str], InvalidRequestError],
        *,
        max_memory_bytes: int = 512 * 1024 * 1024,
        forks: bool = sys.platform == "linux",
    ) -> None:
        """Begin without a child.

        Args:
            module: Module name; its ``prepare()`` imports all that the work needs, and
                ``answer(data, **limits)`` does it and returns bytes.
            refuse: makes the error for a file that a child did not survive, of the reason.
            max_memory_bytes: Memory limit of a child for one file, where the system supports it.
            forks: whether children are forked.
        """
        self._refuse = refuse
        command = partial(_command, str(max_memory_bytes), module, _FORKS if forks else _WORKS)
        self._children: ForkServer | SpawnedChildren
        self._children = ForkServer(command) if forks else SpawnedChildren(command)

    def start(self) -> None:
        """Start what the first file would have to wait for."""
        with suppress(OSError):  # the first request that needs it reports the error
            self._children.start()

    def ask(self, data: bytes, **limits: Any) -> bytes:
        """Return what ``answer(data, **limits)`` does; blocks, so it belongs in a worker thread.

        Args:
            limits: further arguments, which JSON can hold.

        Raises:
            InvalidRequestError: what ``answer`` raised, or the file would take too much memory or
                time.
            EngineError: the child did not even start.
        """
        try:
            child = self._children.child()
        except OSError as error:
            raise EngineError("No process could be started to decode a file.") from error
        except ForkServerLostError as error:
            raise EngineError(_NOT_STARTED) from error
        try:
            answer, is_whole = child.ask(json.dumps(limits).encode() + b"\n" + data, _MAX_WAIT_S)
        except TimeoutError:
            raise self._refuse("it takes too much time") from None
        started, kind, content = answer[:1], answer[1:2], answer[2:]
        if started != _READY:
            raise EngineError(_NOT_STARTED)
        if kind == _DONE and is_whole:
            return content
        if kind == _REFUSED and is_whole:
            raise InvalidRequestError(**json.loads(content))
        raise self._refuse("it is damaged, or needs too much memory or time")

    def close(self) -> None:
        """End what waits for files; files under way are worked on to their end."""
        self._children.close()


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-I", "-c", _CHILD, *arguments, *sys.path]


def main() -> None:
    """Be a child, or what children are forked from."""
    max_memory_bytes, module, duty = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    if duty == _FORKS:
        avoid_threads()  # before anything is imported
    prepare, answer = (resolve_name(f"{module}:{name}") for name in ("prepare", "answer"))
    prepare()
    work = partial(_work, answer, max_memory_bytes)
    if duty == _FORKS:
        serve(work)
    else:
        work()


def _work(answer: Callable[..., bytes], max_memory_bytes: int) -> None:
    """Read limits and a file, write the answer or the reason why there is none, and exit."""
    give_up_rights(max_memory_bytes)
    try:
        _answer_one(answer)
    except ConnectionError:  # the parent was killed
        os._exit(1)


def _answer_one(answer: Callable[..., bytes]) -> None:
    """Read limits and a file, write the answer or the reason why there is none."""
    sys.stdout.buffer.write(_READY)
    sys.stdout.buffer.flush()
    limits = sys.stdin.buffer.readline()
    if not limits.endswith(b"\n"):
        raise ConnectionResetError("the caller went away")
    try:
        content = answer(sys.stdin.buffer.read(), **json.loads(limits))
    except InvalidRequestError as error:
        refusal = {"message": error.message, "param": error.param, "code": error.code}
        sys.stdout.buffer.write(_REFUSED + json.dumps(refusal).encode())
    except MemoryError:
        os._exit(1)
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
