"""Children that are started for each file, one of which waits: where none can be forked."""

import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress


class SpawnedChildren:
    """Keeps one child waiting, so that later files do not pay for the start of a process."""

    def __init__(self, command: Callable[[], Sequence[str]]) -> None:
        """Begin without a child; ``command`` runs one."""
        self._command = command
        self._lock = threading.Lock()
        self._spare: subprocess.Popen[bytes] | None = None
        self._is_closed = False

    def start(self) -> None:
        """Start the child that waits; raises OSError if that is impossible."""
        with self._lock:
            if self._spare is None and not self._is_closed:
                self._spare = self._started()

    def child(self) -> "SpawnedChild":
        """Return a child for a file; raises OSError if none could be started."""
        with self._lock:
            spare, self._spare = self._spare, None
        if spare is not None and spare.poll() is not None:  # it was killed
            _end(spare)
            spare = None
        return SpawnedChild(self, spare or self._started())

    def close(self) -> None:
        """End the child that waits."""
        with self._lock:
            self._is_closed = True
            spare, self._spare = self._spare, None
        if spare is not None:
            _end(spare)

    def _started(self) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            process_group=0 if sys.platform != "win32" else None,  # Ctrl-C is for the server
        )


class SpawnedChild:
    """What works on one file."""

    def __init__(self, children: SpawnedChildren, process: "subprocess.Popen[bytes]") -> None:
        self._children, self._process = children, process

    def ask(self, question: bytes, max_wait_s: float) -> tuple[bytes, bool]:
        """Return all of its output, and whether it exited with status 0; the child is gone then.

        Raises:
            TimeoutError: it took longer.
        """
        try:
            answer = self._process.communicate(question, timeout=max_wait_s)[0]
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            _end(self._process)
            with suppress(OSError):
                self._children.start()
        return answer, self._process.returncode == 0


def _end(child: "subprocess.Popen[bytes]") -> None:
    child.kill()
    with child:  # closes its pipes and waits for it
        pass
