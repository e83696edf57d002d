"""A process that has imported what children need, and forks one for each file (Linux).

Importing takes a third of a second of a core, forking a few milliseconds. The process itself never
sees a file: it is given the child's end of a connection, which the child alone reads.
"""

import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress

_FORK, _END = b"f", b"e"
_MESSAGE, _REPLY = struct.Struct("<ci"), struct.Struct("<i")
_FAILED = -1
_READ_BYTES = 1 << 20
_LIBRARY_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


class ForkServerLostError(Exception):
    """The process has ended, or never began."""


class ForkServer:
    """Starts the process when a child is first wanted, and again if it was killed.

    Safe for several threads at once. After it was closed it starts again on the next call.
    """

    def __init__(self, command: Callable[[], Sequence[str]]) -> None:
        """Begin without a process; ``command`` runs `serve`."""
        self._command = command
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None

    def start(self) -> None:
        """Start the process, if there is none; raises OSError if that is impossible."""
        with self._lock:
            self._start()

    def child(self) -> "ForkedChild":
        """Fork a child.

        Raises:
            OSError: no process could be started.
            ForkServerLostError: the process ended before it could fork.
        """
        ours, theirs = socket.socketpair()
        with ExitStack() as unless_forked:
            unless_forked.enter_context(ours)
            with theirs, self._lock:
                pid = self._forked(theirs)
            if pid == _FAILED:
                raise OSError("no process can be forked")
            unless_forked.pop_all()
        return ForkedChild(self, ours, pid)

    def end(self, pid: int) -> int | None:
        """Kill a child and return its status, as `os.waitpid` does; ``None`` if it is unknown."""
        with self._lock, suppress(ForkServerLostError):
            if self._control is not None:
                return self._call(_END, pid)
        return None

    def close(self) -> None:
        """End the process; children that work end by themselves."""
        with self._lock:
            self._stop()

    def _forked(self, connection: socket.socket) -> int:
        is_new = self._start()
        try:
            return self._call(_FORK, 0, connection)
        except ForkServerLostError:
            self._stop()
            if is_new:
                raise
        self._start()
        return self._call(_FORK, 0, connection)

    def _start(self) -> bool:
        """Return whether there was no process."""
        if self._control is not None:
            return False
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = subprocess.Popen(
                    self._command(),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    process_group=0,  # Ctrl-C is for the server
                )
            except OSError:
                ours.close()
                raise
        self._control = ours
        return True

    def _stop(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _call(self, kind: bytes, pid: int, connection: socket.socket | None = None) -> int:
        assert self._control is not None, "there is no process"
        fds = [connection.fileno()] if connection else []
        try:
            socket.send_fds(self._control, [_MESSAGE.pack(kind, pid)], fds)
            reply = self._control.recv(_REPLY.size)
        except OSError as error:
            raise ForkServerLostError from error
        if not reply:
            raise ForkServerLostError
        (number,) = _REPLY.unpack(reply)
        return int(number)


class ForkedChild:
    """What works on one file, and our end of the connection to it."""

    def __init__(self, server: ForkServer, connection: socket.socket, pid: int) -> None:
        self._server, self._connection, self._pid = server, connection, pid

    def ask(self, question: bytes, max_wait_s: float) -> tuple[bytes, bool]:
        """Return all of its output, and whether it exited with status 0; the child is gone then.

        Raises:
            TimeoutError: it took longer.
        """
        answer, ends_s = bytearray(), time.monotonic() + max_wait_s
        try:
            with self._connection as connection:
                connection.settimeout(_left_s(ends_s))
                with suppress(ConnectionError):  # the child is gone; its output is still readable
                    connection.sendall(question)
                    connection.shutdown(socket.SHUT_WR)
                with suppress(ConnectionError):
                    connection.settimeout(_left_s(ends_s))
                    while received := connection.recv(_READ_BYTES):
                        answer += received
                        connection.settimeout(_left_s(ends_s))
        finally:
            status = self._server.end(self._pid)
        return bytes(answer), status == 0


def _left_s(ends_s: float) -> float:
    """Return the time until then, which is there."""
    if (left_s := ends_s - time.monotonic()) <= 0:
        raise TimeoutError
    return left_s


def avoid_threads() -> None:
    """Keep libraries from starting threads, which would be missing in what is forked."""
    for name in _LIBRARY_THREADS:
        os.putenv(name, "1")


def serve(work: Callable[[], None]) -> None:
    """Fork a child for each connection until the parent closes its end.

    Args:
        work: Main function of a child: reads standard input to its end, writes its output, exits.
    """
    control = socket.socket(fileno=os.dup(0))
    with suppress(ConnectionError):  # the parent was killed before it read the reply
        while _serve_one(control, work):
            pass
    os._exit(0)


def _serve_one(control: socket.socket, work: Callable[[], None]) -> bool:
    """Do what the next message asks for; return whether there was one."""
    message, fds, _, _ = socket.recv_fds(control, _MESSAGE.size, 1)
    if not message:
        return False
    kind, pid = _MESSAGE.unpack(message)
    if kind == _END:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        control.send(_REPLY.pack(os.waitpid(pid, 0)[1]))
        return True
    try:
        child = os.fork()
    except OSError:
        child = _FAILED
    if child == 0:
        control.close()
        os.dup2(fds[0], 0)
        os.dup2(fds[0], 1)
        os.close(fds[0])
        work()
        os._exit(0)
    for fd in fds:
        os.close(fd)
    control.send(_REPLY.pack(child))
    return True
